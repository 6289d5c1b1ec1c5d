package tool

import (
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"fleet/internal/face/wire"
)

// sizeWithout returns the length that the message's JSON would have if the field at the path were not set.
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

// countAt returns how many items the list at the path has, or how many bytes the text has; 0 if the field is not set.
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

// parentAt returns the message that holds the field at the path, and the field. The field is nil if it does not exist, if a message on
// the path is not set, or if the path passes through a list or map.
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

// fieldAt returns the field at the path in a message type; nil if it does not exist.
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
