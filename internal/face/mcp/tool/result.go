package tool

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/mark3labs/mcp-go/mcp"
	"google.golang.org/protobuf/proto"

	"fleet/internal/face/encoded"
	"fleet/internal/face/wire"
)

// DefaultMaxResult is the default limit of a result's text, in bytes.
const DefaultMaxResult = 48 << 10

// noteBytes is the part of a result that is reserved for the note about shortened fields, in bytes.
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

// resultOf makes the result of a call: the whole message if it fits, otherwise as much as fits. again repeats the call
// after lowerLimit has changed the request; it may be nil if the Spec has no Portion.
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
	for len(b) > maxBytes {
		m = proto.Clone(m) // the service may share parts of it
		short := shortener{message: m.ProtoReflect(), request: q.ProtoReflect(), cuts: s.Cuts, untouched: untouched, maxBytes: maxBytes - noteBytes}
		if b, err = short.shorten(); err != nil {
			return Failure(ctx, err)
		}
		// The cursor of an answer points after all its items. If the last ones were left out, only an answer without them has the right cursor.
		kept := countAt(m.ProtoReflect(), s.Portion.Of)
		if untouched == "" || short.omitted[s.Portion.Of] == 0 || !s.setLowerLimit(q.ProtoReflect(), kept) {
			return success(ctx, b, short.note())
		}
		if m, err = again(); err != nil {
			return Failure(ctx, err)
		}
		if b, err = wire.Marshal(m); err != nil {
			return Failure(ctx, err)
		}
	}
	return success(ctx, b, "")
}

// resultOfEncoded makes the result of a call from a response that is JSON already.
func (s Spec) resultOfEncoded(ctx context.Context, q proto.Message, a *encoded.Response, again func() (proto.Message, error)) *mcp.CallToolResult {
	j, err := a.JSON()
	switch {
	case err != nil:
		return Failure(ctx, err)
	case len(j.Data()) > maxResult(ctx):
		return s.resultOf(ctx, q, a.Message(), again)
	}
	r := success(ctx, j.Data(), "")
	if d := DeferredResultOf(ctx); d != nil {
		d.text = j.Quoted()
	}
	return r
}

// success returns the JSON as structured content, and as text for clients that read only text. If the transport
// assembles the response, the result has placeholders instead, and success hands the JSON to the transport. A note
// becomes a second text.
func success(ctx context.Context, b []byte, note string) *mcp.CallToolResult {
	r := &mcp.CallToolResult{}
	if d := DeferredResultOf(ctx); d != nil {
		d.result = b
		r.Content, r.StructuredContent = []mcp.Content{mcp.NewTextContent(placeholder)}, placeholder
	} else {
		r.Content, r.StructuredContent = []mcp.Content{mcp.NewTextContent(string(b))}, json.RawMessage(b)
	}
	if note != "" {
		r.Content = append(r.Content, mcp.NewTextContent(note))
	}
	return r
}

// Failure returns the result of a failed call: the error object as text, shortened if it is too large. The error object is not structured
// content, because clients check structured content against the output schema even if the result is an error.
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
