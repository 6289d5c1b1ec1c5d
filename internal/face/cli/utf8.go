package cli

import (
	"strings"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// checkTexts returns a usage error if a text of the request is not UTF-8, for example because an argument comes from a
// terminal or a file in another encoding. Protobuf refuses such texts with an error that does not name them.
func checkTexts(request any) error {
	m, ok := request.(proto.Message)
	if !ok {
		return nil
	}
	return protorange.Range(m.ProtoReflect(), func(p protopath.Values) error {
		last := p.Index(-1)
		texts := []any{last.Value.Interface()}
		if last.Step.Kind() == protopath.MapIndexStep {
			texts = append(texts, last.Step.MapIndex().Interface())
		}
		for _, text := range texts {
			if s, ok := text.(string); ok && !utf8.ValidString(s) {
				return notText(nameIn(p.Path))
			}
		}
		return nil
	})
}

// checkedStream is a stream on which only requests in UTF-8 are sent.
type checkedStream struct{ grpc.ClientStream }

// SendMsg implements grpc.ClientStream.
func (s checkedStream) SendMsg(request any) error {
	if err := checkTexts(request); err != nil {
		return err
	}
	return s.ClientStream.SendMsg(request)
}

// nameIn returns the name of the last field of the path in words: "agent name".
func nameIn(path protopath.Path) string {
	var f protoreflect.FieldDescriptor
	for _, step := range path {
		if step.Kind() == protopath.FieldAccessStep {
			f = step.FieldDescriptor()
		}
	}
	if f == nil {
		return "request"
	}
	return strings.ReplaceAll(string(f.Name()), "_", " ")
}
