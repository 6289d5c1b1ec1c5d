package main

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	_ "google.golang.org/protobuf/types/known/durationpb" // the type of a field
	"google.golang.org/protobuf/types/pluginpb"
)

// run runs the plugin for a file with the method M(Q) returns (A), and returns the generated code. Q has the fields
// request, and A has the fields answer.
func run(t *testing.T, request, answer []*descriptorpb.FieldDescriptorProto) (string, error) {
	t.Helper()
	duration, err := protoregistry.GlobalFiles.FindFileByPath("google/protobuf/duration.proto")
	require.NoError(t, err)
	file := &descriptorpb.FileDescriptorProto{
		Name: proto.String("x.proto"), Package: proto.String("x"), Syntax: proto.String("proto3"),
		Dependency: []string{duration.Path()},
		Options:    &descriptorpb.FileOptions{GoPackage: proto.String("example.com/x")},
		MessageType: []*descriptorpb.DescriptorProto{
			{Name: proto.String("Q"), Field: request}, {Name: proto.String("A"), Field: answer}, {Name: proto.String("Unused")},
		},
		Service: []*descriptorpb.ServiceDescriptorProto{{Name: proto.String("S"), Method: []*descriptorpb.MethodDescriptorProto{
			{Name: proto.String("M"), InputType: proto.String(".x.Q"), OutputType: proto.String(".x.A")},
		}}},
	}
	p, err := protogen.Options{}.New(&pluginpb.CodeGeneratorRequest{
		FileToGenerate: []string{"x.proto"}, Parameter: proto.String("paths=source_relative"),
		ProtoFile: []*descriptorpb.FileDescriptorProto{protodesc.ToFileDescriptorProto(duration), file},
	})
	require.NoError(t, err)
	if err := generate(p); err != nil {
		return "", err
	}
	response := p.Response()
	require.Nil(t, response.Error)
	require.Len(t, response.File, 1)
	require.Equal(t, "x.pb.json.go", response.File[0].GetName())
	return response.File[0].GetContent(), nil
}

func field(name string, kind descriptorpb.FieldDescriptorProto_Type, list bool, message string) *descriptorpb.FieldDescriptorProto {
	f := &descriptorpb.FieldDescriptorProto{Name: &name, Number: proto.Int32(1), Type: &kind, Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()}
	if list {
		f.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
	}
	if message != "" {
		f.TypeName = &message
	}
	return f
}

func TestUnusedMessages(t *testing.T) {
	t.Parallel()
	text := []*descriptorpb.FieldDescriptorProto{field("text", descriptorpb.FieldDescriptorProto_TYPE_STRING, false, "")}
	code, err := run(t, text, text)
	require.NoError(t, err)
	require.Contains(t, code, "func (m *Q) ReadField(")
	require.Contains(t, code, "func (m *A) AppendJSON(")
	require.NotContains(t, code, "func (m *A) ReadField(")
	require.NotContains(t, code, "func (m *Q) AppendJSON(")
	require.NotContains(t, code, "Unused")
}

func TestMessagesInRequests(t *testing.T) {
	t.Parallel()
	code, err := run(t, []*descriptorpb.FieldDescriptorProto{field("many", descriptorpb.FieldDescriptorProto_TYPE_MESSAGE, true, ".x.Unused")}, nil)
	require.NoError(t, err)
	require.Contains(t, code, "wire.List(r, &m.Many, wire.Message[Unused])")
	require.Contains(t, code, "func (m *Unused) ReadField(")
	require.NotContains(t, code, "func (m *Unused) AppendJSON(")
	code, err = run(t, []*descriptorpb.FieldDescriptorProto{field("data", descriptorpb.FieldDescriptorProto_TYPE_BYTES, false, "")}, nil)
	require.NoError(t, err)
	require.Contains(t, code, "r.Bytes(&m.Data)")
}

func TestUnknownFieldType(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, want string
		field      *descriptorpb.FieldDescriptorProto
		request    bool
	}{
		{"bytes", "x.A.f: package wire has no JSON form for a field of type bytes", field("f", descriptorpb.FieldDescriptorProto_TYPE_BYTES, false, ""), false},
		{"well-known type", "x.A.f: package wire has no JSON form for a field of type google.protobuf.Duration", field("f", descriptorpb.FieldDescriptorProto_TYPE_MESSAGE, false, ".google.protobuf.Duration"), false},
		{"message in a request", "x.Q.f: package wire has no JSON form for a field of type x.Unused", field("f", descriptorpb.FieldDescriptorProto_TYPE_MESSAGE, false, ".x.Unused"), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var request, answer []*descriptorpb.FieldDescriptorProto
			if c.request {
				request = append(request, c.field)
			} else {
				answer = append(answer, c.field)
			}
			_, err := run(t, request, answer)
			require.ErrorContains(t, err, c.want)
		})
	}
}
