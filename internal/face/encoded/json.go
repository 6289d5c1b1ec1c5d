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
	open string               // the JSON before the list in every answer
	json []byte               // the list with its brackets
	rest protoreflect.Message // the part without the list
}

// newList encodes the list of a message. The list must be the first field.
func newList(m proto.Message) (*jsonList, error) {
	first := m.ProtoReflect().Descriptor().Fields().Get(0)
	if !first.IsList() {
		return nil, fmt.Errorf("encoded: the first field of %s is not a list", m.ProtoReflect().Descriptor().FullName())
	}
	l := &jsonList{open: `{"` + string(first.Name()) + `":`, rest: m.ProtoReflect().New()}
	alone := m.ProtoReflect().New()
	m.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if f == first {
			alone.Set(f, v)
		} else {
			l.rest.Set(f, v)
		}
		return true
	})
	data, err := wire.Marshal(alone.Interface())
	if err != nil {
		return nil, err
	}
	empty, err := wire.Marshal(alone.New().Interface())
	tail := len(empty) - len(l.open) - len("[]")
	l.json = data[len(l.open) : len(data)-tail]
	return l, err
}

// jsonAnswer is an answer as JSON.
type jsonAnswer struct {
	rest []byte // all but the list
	line []byte // the JSON, and a line end
	text func() []byte
	tag  func() string
	gzip func() []byte // line, compressed
}

// json returns the answer as JSON. It reuses the JSON of the previous answer unless the live fields have changed since.
func (a *Answer) json() (*jsonAnswer, error) {
	if a.jsonForm != nil {
		return a.jsonForm, nil
	}
	l, err := a.Part.list()
	if err != nil {
		return nil, err
	}
	m := proto.Clone(a.Live)
	proto.Merge(m, l.rest.Interface())
	rest, err := wire.Marshal(m)
	if err != nil {
		return nil, err
	}
	if last := a.Part.last.Load(); last != nil && bytes.Equal(last.rest, rest) {
		a.jsonForm = last
		return last, nil
	}
	w := &jsonAnswer{rest: rest, line: slices.Concat([]byte(l.open), l.json, rest[len(l.open)+len("[]"):], []byte("\n"))}
	w.text = sync.OnceValue(func() []byte {
		return wire.AppendString(make([]byte, 0, len(w.line)*3/2), string(w.json()))
	})
	w.tag = sync.OnceValue(func() string { return Tag(w.line) })
	w.gzip = sync.OnceValue(func() []byte { return Gzip(w.line) })
	a.Part.last.Store(w)
	a.jsonForm = w
	return w, nil
}

func (w *jsonAnswer) json() []byte { end := len(w.line) - 1; return w.line[:end:end] }

// Line returns the answer as a line of JSON. The caller must not change it.
func (a *Answer) Line() ([]byte, error) {
	w, err := a.json()
	if err != nil {
		return nil, err
	}
	return w.line, nil
}

// JSON returns the answer as JSON, and this JSON as a JSON string. The caller must not change them.
func (a *Answer) JSON() (data, text []byte, err error) {
	w, err := a.json()
	if err != nil {
		return nil, nil, err
	}
	return w.json(), w.text(), nil
}

// Tag returns the entity tag of the answer as a line of JSON.
func (a *Answer) Tag() (string, error) {
	w, err := a.json()
	if err != nil {
		return "", err
	}
	return w.tag(), nil
}

// Gzip returns the answer as a line of JSON, compressed by gzip. The caller must not change it.
func (a *Answer) Gzip() ([]byte, error) {
	w, err := a.json()
	if err != nil {
		return nil, err
	}
	return w.gzip(), nil
}
