package tool

import (
	"context"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"fleet/internal/face/wire"
)

// Portion says how to get a smaller answer from a method without side effects: repeat the call with a lower Limit. The zero value is for
// methods for which this is not possible.
type Portion struct {
	Limit  string // optional int32 field of the request
	Of     string // path of the list or text of the response whose items or bytes the limit counts, such as "task.payload"
	Unless string // bool field of the request: if set, the answer is shortened instead
}

// Cut says how one field of a response is shortened.
type Cut struct {
	Field      string // path of the field in the response
	NextOffset string // for a text: the response field for the offset at which the next portion begins, in bytes
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

// capLimit sets the request's limit for a text to the maximum size of a result, unless the limit is lower already. So no service reads
// and sends megabytes that would be thrown away.
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

// lowerLimit repeats the call with lower limits until the answer fits, or until a lower limit cannot make it smaller. m is the answer to
// the first call and b its JSON. lowerLimit returns the last answer and its JSON, which may still be too large.
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

// setLowerLimit sets the request's limit. It returns false if the limit is not higher already, because the service then ignores it.
func (s Spec) setLowerLimit(q protoreflect.Message, n int) bool {
	limit := q.Descriptor().Fields().ByName(protoreflect.Name(s.Portion.Limit))
	if q.Has(limit) && q.Get(limit).Int() <= int64(n) {
		return false
	}
	q.Set(limit, protoreflect.ValueOfInt32(int32(n))) //nolint:gosec // the number of items in an answer
	return true
}

// listEnd says which end of a list a lower limit keeps.
type listEnd int

const (
	unknownEnd listEnd = iota
	firstItems
	lastItems // as with the newest events
)

// endKeptByLimit compares an answer with the answer to a lower limit and returns which end of the list the lower limit keeps. It returns
// firstItems for a text and for an empty list.
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

// countThatFits returns how many of the list's n items, or of the text's n bytes, fit into the room. size is the total size of the items
// or the text.
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
