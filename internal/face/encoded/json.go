package encoded

import (
	"bytes"
	"fmt"
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"fleet/internal/face/wire"
)

// jsonList is the list of a part, as JSON.
type jsonList struct {
	prefix string               // the JSON before the list in every response
	json   []byte               // the list with its brackets
	rest   protoreflect.Message // the part without the list
}

// newJSONList encodes the list of a message. The list must be the first field.
func newJSONList(m proto.Message) (*jsonList, error) {
	first := m.ProtoReflect().Descriptor().Fields().Get(0)
	if !first.IsList() {
		return nil, fmt.Errorf("encoded: the first field of %s is not a list", m.ProtoReflect().Descriptor().FullName())
	}
	l := &jsonList{prefix: `{"` + string(first.Name()) + `":`, rest: m.ProtoReflect().New()}
	listOnly := m.ProtoReflect().New()
	m.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if f == first {
			listOnly.Set(f, v)
		} else {
			l.rest.Set(f, v)
		}
		return true
	})
	data, err := wire.Marshal(listOnly.Interface())
	if err != nil {
		return nil, err
	}
	empty, err := wire.Marshal(listOnly.New().Interface())
	if err != nil {
		return nil, err
	}
	tail := len(empty) - len(l.prefix) - len("[]")
	l.json = data[len(l.prefix) : len(data)-tail]
	return l, nil
}

// JSON is a response as JSON. Callers must not change its bytes.
type JSON struct {
	Line        []byte        // the JSON and a line end
	Quoted      func() []byte // the JSON as a JSON string
	Tag         func() string // the entity tag of Line
	Gzip        func() []byte // Line, compressed
	withoutList []byte        // the JSON with an empty list
}

// Data returns the JSON without the line end.
func (j *JSON) Data() []byte { end := len(j.Line) - 1; return j.Line[:end:end] }

// JSON returns the response as JSON. It reuses the JSON of the previous response with the same part, unless
// the live fields have changed since.
func (r *Response) JSON() (*JSON, error) {
	if r.json != nil {
		return r.json, nil
	}
	l, err := r.Part.list()
	if err != nil {
		return nil, err
	}
	m := proto.Clone(r.Live)
	proto.Merge(m, l.rest.Interface())
	rest, err := wire.Marshal(m)
	if err != nil {
		return nil, err
	}
	if last := r.Part.last.Load(); last != nil && bytes.Equal(last.withoutList, rest) {
		r.json = last
		return last, nil
	}
	j := &JSON{withoutList: rest, Line: slices.Concat([]byte(l.prefix), l.json, rest[len(l.prefix)+len("[]"):], []byte("\n"))}
	j.Quoted = sync.OnceValue(func() []byte { return wire.AppendString(make([]byte, 0, len(j.Line)*3/2), string(j.Data())) })
	j.Tag = sync.OnceValue(func() string { return Tag(j.Line) })
	j.Gzip = sync.OnceValue(func() []byte { return Gzip(j.Line) })
	r.Part.last.Store(j)
	r.json = j
	return j, nil
}
