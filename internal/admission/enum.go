package admission

import (
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"fleet/internal/fleet"
)

// checkEnums refuses a request with an enum number that the proto does not define. gRPC itself accepts such numbers. checkEnums does
// not look into lists and nested messages.
func checkEnums(req any) (err error) {
	m, ok := req.(proto.Message)
	if !ok {
		return nil
	}
	m.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if f.Kind() == protoreflect.EnumKind && !f.IsList() && f.Enum().Values().ByNumber(v.Enum()) == nil {
			err = fleet.InvalidField(string(f.Name()), "%s is %d: it must be one of %s", f.Name(), v.Enum(), valuesOf(f.Enum()))
		}
		return err == nil
	})
	return err
}

// valuesOf lists the values of the enum, without the unspecified one.
func valuesOf(e protoreflect.EnumDescriptor) string {
	var names []string
	for i := range e.Values().Len() {
		if v := e.Values().Get(i); v.Number() != 0 {
			names = append(names, string(v.Name()))
		}
	}
	return strings.Join(names, ", ")
}
