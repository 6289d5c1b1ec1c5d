package admission

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"

	"fleet/internal/fleet"
)

const (
	// maxValueDepth is how many levels of lists and objects a field may have whose value can be any JSON. Package wire allows a JSON
	// request one level more, for the request itself.
	maxValueDepth = 63
	// maxValueSize is how many bytes such a value may have as JSON.
	maxValueSize = fleet.MaxText
)

// checkValues refuses a request that has, in any field, a value of free form that is too large or nested too deep. Code behind
// the faces formats such values, which multiplies their size by their depth.
func checkValues(req any) error {
	m, ok := req.(proto.Message)
	if !ok {
		return nil
	}
	return checkValuesIn(m.ProtoReflect())
}

func checkValuesIn(m protoreflect.Message) (err error) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		check := func(v protoreflect.Value) bool {
			if err = checkValue(f, v.Message()); err == nil {
				return true
			}
			return false
		}
		switch {
		case f.IsMap() && f.MapValue().Message() != nil:
			v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool { return check(v) })
		case f.IsMap() || f.Message() == nil:
		case f.IsList():
			for i := range v.List().Len() {
				if !check(v.List().Get(i)) {
					break
				}
			}
		default:
			check(v)
		}
		return err == nil
	})
	return err
}

// checkValue checks the message in the field f.
func checkValue(f protoreflect.FieldDescriptor, m protoreflect.Message) error {
	var s valueSize
	switch v := m.Interface().(type) {
	case *structpb.Struct:
		s.addObject(v, 1)
	case *structpb.ListValue:
		s.addList(v, 1)
	case *structpb.Value:
		s.addValue(v, 0)
	default:
		return checkValuesIn(m)
	}
	switch {
	case s.tooDeep:
		return fleet.InvalidField(string(f.Name()), "%s has more than %d levels of lists and objects: give it fewer, for example as a text", f.Name(), maxValueDepth)
	case s.bytes > maxValueSize:
		return fleet.InvalidField(string(f.Name()), "%s has more than %d bytes as JSON: leave something out", f.Name(), maxValueSize)
	}
	return nil
}

// valueSize estimates the size of a value as JSON. It stops when the value is too deep or too large.
type valueSize struct {
	bytes   int
	tooDeep bool
}

func (s *valueSize) exceeded() bool { return s.tooDeep || s.bytes > maxValueSize }

func (s *valueSize) addValue(v *structpb.Value, depth int) {
	s.bytes += 2 // a separator and the shortest value
	switch k := v.GetKind().(type) {
	case *structpb.Value_StringValue:
		s.bytes += len(k.StringValue)
	case *structpb.Value_StructValue:
		s.addObject(k.StructValue, depth+1)
	case *structpb.Value_ListValue:
		s.addList(k.ListValue, depth+1)
	}
}

func (s *valueSize) addObject(o *structpb.Struct, depth int) {
	s.tooDeep = s.tooDeep || depth > maxValueDepth
	for name, v := range o.GetFields() {
		if s.exceeded() {
			return
		}
		s.bytes += len(name) + 3 // quotes and a colon
		s.addValue(v, depth)
	}
}

func (s *valueSize) addList(l *structpb.ListValue, depth int) {
	s.tooDeep = s.tooDeep || depth > maxValueDepth
	for _, v := range l.GetValues() {
		if s.exceeded() {
			return
		}
		s.addValue(v, depth)
	}
}
