package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"fleet/internal/face/encoded"
	"fleet/internal/face/wire"
)

// DefaultMaxResult is the default limit of a result's text, in bytes.
const DefaultMaxResult = 48 << 10

// noteBytes is the part of a result that is reserved for the note about what was shortened, in bytes.
const noteBytes = 512

type maxResultKey struct{}

// WithMaxResult returns a context whose calls answer with at most n bytes of text. The structured content of a result
// is the same JSON as its text and does not count again.
func WithMaxResult(ctx context.Context, n int) context.Context {
	return context.WithValue(ctx, maxResultKey{}, n)
}

func maxResult(ctx context.Context) int {
	if n, _ := ctx.Value(maxResultKey{}).(int); n > 0 {
		return n
	}
	return DefaultMaxResult
}

// Portion says how to get a smaller answer from a method without side effects: repeat the call with a lower Limit.
type Portion struct {
	Limit  string // optional int32 field of the request
	Of     string // what the limit counts: a list or a text of the response, possibly nested ("task.payload")
	Unless string // bool field of the request: if set, the answer is shortened instead
}

// Cut says how one field of a response is shortened.
type Cut struct {
	Field      string // path of the field in the response
	NextOffset string // for a text: the response field for the offset of what was left out, in bytes
	Offset     string // for a text: the request field for the offset at which the text begins
	Cursor     string // for a list: the response field for the cursor of the last item that was kept
	ItemCursor string // for a list with Cursor: the field of an item that has its cursor
	KeepLast   bool   // for a list: leave out items from the beginning, before anything else is shortened
}

// applies reports whether the answer to the request can be fetched in smaller portions.
func (p Portion) applies(q protoreflect.Message) bool {
	if p.Limit == "" {
		return false
	}
	unless := q.Descriptor().Fields().ByName(protoreflect.Name(p.Unless))
	return unless == nil || !q.Get(unless).Bool()
}

// capLimit lowers the request's limit for a text to what fits into a result, so that no service reads and sends
// megabytes that would be thrown away.
func (s Spec) capLimit(ctx context.Context, q, response protoreflect.Message) {
	if !s.Portion.applies(q) {
		return
	}
	if f := fieldAt(response.Descriptor(), s.Portion.Of); f != nil && f.Kind() == protoreflect.StringKind && !f.IsList() {
		limit := q.Descriptor().Fields().ByName(protoreflect.Name(s.Portion.Limit))
		if maxBytes := int64(maxResult(ctx)); !q.Has(limit) || q.Get(limit).Int() > maxBytes {
			q.Set(limit, protoreflect.ValueOfInt32(int32(maxBytes))) //nolint:gosec // Config bounds it
		}
	}
}

// resultOf makes the result of a call: the whole message if it fits, otherwise as much as fits. again repeats the call
// after lowerLimit has changed the request.
func (s Spec) resultOf(ctx context.Context, q, m proto.Message, again func() (proto.Message, error)) *mcp.CallToolResult {
	maxBytes := maxResult(ctx)
	b, err := wire.Marshal(m)
	if err != nil {
		return Failure(ctx, err)
	}
	if len(b) <= maxBytes {
		return success(ctx, b, "")
	}
	untouched := ""
	if s.Portion.applies(q.ProtoReflect()) {
		if m, b, err = s.lowerLimit(q.ProtoReflect(), m, b, maxBytes, again); err != nil {
			return Failure(ctx, err)
		}
		untouched = s.Portion.Of
	}
	if len(b) <= maxBytes {
		return success(ctx, b, "")
	}
	m = proto.Clone(m) // the service may have parts of it
	short := shortener{message: m.ProtoReflect(), request: q.ProtoReflect(), cuts: s.Cuts, untouched: untouched, maxBytes: maxBytes - noteBytes}
	if b, err = short.shorten(); err != nil {
		return Failure(ctx, err)
	}
	return success(ctx, b, short.note())
}

// resultOfEncoded makes the result of a call from an answer that is JSON already.
func (s Spec) resultOfEncoded(ctx context.Context, q proto.Message, a *encoded.Answer, again func() (proto.Message, error)) *mcp.CallToolResult {
	b, text, err := a.JSON()
	switch {
	case err != nil:
		return Failure(ctx, err)
	case len(b) > maxResult(ctx):
		return s.resultOf(ctx, q, a.Message(), again)
	}
	r := success(ctx, b, "")
	if assembled := DeferredResultOf(ctx); assembled != nil {
		assembled.text = text
	}
	return r
}

// lowerLimit repeats the call with lower limits until the answer fits, or until a lower limit cannot make it smaller.
func (s Spec) lowerLimit(q protoreflect.Message, m proto.Message, b []byte, maxBytes int, again func() (proto.Message, error)) (proto.Message, []byte, error) {
	limit := q.Descriptor().Fields().ByName(protoreflect.Name(s.Portion.Limit))
	end := unknownEnd
	for range 30 {
		n := countAt(m.ProtoReflect(), s.Portion.Of)
		if q.Has(limit) {
			n = min(n, int(q.Get(limit).Int()))
		}
		rest, err := sizeWithout(m, s.Portion.Of)
		if err != nil {
			return nil, nil, err
		}
		room := maxBytes - noteBytes - min(rest, maxBytes/2) // the rest of the answer can be shortened to half of the result
		fits, err := s.countThatFits(m, n, len(b)-rest, room, maxBytes, end)
		if err != nil || n <= 1 || fits >= n {
			return m, b, err
		}
		q.Set(limit, protoreflect.ValueOfInt32(int32(max(1, fits)))) //nolint:gosec // smaller than the previous limit
		before := m
		if m, err = again(); err != nil {
			return nil, nil, err
		}
		if b, err = wire.Marshal(m); err != nil {
			return nil, nil, err
		}
		if len(b) <= maxBytes {
			return m, b, nil
		}
		if end == unknownEnd {
			end = s.endKeptByLimit(before, m)
		}
	}
	return m, b, nil
}

// listEnd tells which end of a list a lower limit keeps.
type listEnd int

const (
	unknownEnd listEnd = iota
	firstItems
	lastItems // as with the newest events
)

// endKeptByLimit compares an answer with the answer to a lower limit and returns which end of the list the lower limit keeps.
func (s Spec) endKeptByLimit(before, after proto.Message) listEnd {
	items := func(m proto.Message) protoreflect.List {
		if in, f := parentAt(m.ProtoReflect(), s.Portion.Of); f != nil && f.IsList() && in.Has(f) {
			return in.Get(f).List()
		}
		return nil
	}
	a, b := items(before), items(after)
	if a == nil || b == nil || a.Get(0).Equal(b.Get(0)) {
		return firstItems
	}
	return lastItems
}

// countThatFits returns how many of the list's n items, or of the text's n bytes, fit into the room. size is their
// total size.
func (s Spec) countThatFits(m proto.Message, n, size, room, maxBytes int, end listEnd) (int, error) {
	in, f := parentAt(m.ProtoReflect(), s.Portion.Of)
	if f == nil || !f.IsList() || f.Message() == nil {
		if size <= room {
			return n, nil
		}
		return min(n-1, int(int64(n)*int64(room)/int64(size))), nil
	}
	list := in.Get(f).List()
	first, err := itemsThatFit(list, room, maxBytes, false)
	if err != nil || end == firstItems {
		return first, err
	}
	last, err := itemsThatFit(list, room, maxBytes, true)
	if end == unknownEnd {
		last = max(first, last)
	}
	return last, err
}

// itemsThatFit returns how many items at the beginning or end of the list fit into the room. A single large item counts
// as at most a quarter of the result, since its texts can be shortened later.
func itemsThatFit(list protoreflect.List, room, maxBytes int, fromEnd bool) (n int, err error) {
	for used := 0; n < list.Len(); n++ {
		i := n
		if fromEnd {
			i = list.Len() - 1 - n
		}
		size, err := itemSize(list.Get(i))
		if err != nil {
			return 0, err
		}
		if used += min(size, maxBytes/4); used > room {
			break
		}
	}
	return n, nil
}

// sizeWithout returns the length of the message's JSON without the field.
func sizeWithout(m proto.Message, path string) (int, error) {
	in, f := parentAt(m.ProtoReflect(), path)
	if f == nil || !in.Has(f) {
		b, err := wire.Marshal(m)
		return len(b), err
	}
	others := in.New() // clearing the field would empty the shared list
	in.Range(func(other protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if other != f {
			others.Set(other, v)
		}
		return true
	})
	size := 0
	for i, x := range []proto.Message{m, in.Interface(), others.Interface()} {
		b, err := wire.Marshal(x)
		if err != nil {
			return 0, err
		}
		if i == 1 {
			size -= len(b)
		} else {
			size += len(b)
		}
	}
	return size, nil
}

// countAt returns how many items the list has, or how many bytes the text has.
func countAt(m protoreflect.Message, path string) int {
	in, f := parentAt(m, path)
	switch {
	case f == nil || !in.Has(f):
		return 0
	case f.IsList():
		return in.Get(f).List().Len()
	}
	return len(in.Get(f).String())
}

// parentAt returns the message that holds the field at the path, and the field, which is nil if it does not exist.
func parentAt(m protoreflect.Message, path string) (protoreflect.Message, protoreflect.FieldDescriptor) {
	for {
		name, more, deeper := strings.Cut(path, ".")
		f := m.Descriptor().Fields().ByName(protoreflect.Name(name))
		if f == nil || !deeper {
			return m, f
		}
		if f.Message() == nil || f.IsList() || f.IsMap() || !m.Has(f) {
			return m, nil
		}
		m, path = m.Get(f).Message(), more
	}
}

// fieldAt does the same as parentAt for a message type.
func fieldAt(d protoreflect.MessageDescriptor, path string) protoreflect.FieldDescriptor {
	for {
		name, more, deeper := strings.Cut(path, ".")
		f := d.Fields().ByName(protoreflect.Name(name))
		if f == nil || !deeper {
			return f
		}
		if f.Message() == nil {
			return nil
		}
		d, path = f.Message(), more
	}
}

// success returns the JSON as structured content, and as text for clients that read only text. If the transport
// assembles the response, the result has placeholders instead, and success hands the JSON to the transport. A note
// becomes a second text.
func success(ctx context.Context, b []byte, note string) *mcp.CallToolResult {
	r := &mcp.CallToolResult{}
	if a := DeferredResultOf(ctx); a != nil {
		a.result = b
		r.Content, r.StructuredContent = []mcp.Content{mcp.NewTextContent(placeholder)}, placeholder
	} else {
		r.Content, r.StructuredContent = []mcp.Content{mcp.NewTextContent(string(b))}, json.RawMessage(b)
	}
	if note != "" {
		r.Content = append(r.Content, mcp.NewTextContent(note))
	}
	return r
}

// Failure returns the result of a failed call: the error object as text. It is not structured content, because clients check that against the output
// schema even if the result is an error.
func Failure(ctx context.Context, err error) *mcp.CallToolResult {
	text := wire.ErrorBody(err)
	if most := maxResult(ctx); len(text) > most {
		e := wire.ErrorOf(err)
		e.Details = nil
		if e.Message, _ = jsonPrefix(e.Message, most-noteBytes); len(e.JSON()) > most {
			e.Message = fmt.Sprintf("the error's text is too long for a tool (mcp.max_result is %d bytes); the server's log has it", most)
		}
		text = e.JSON()
	}
	return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{mcp.NewTextContent(string(text))}}
}
