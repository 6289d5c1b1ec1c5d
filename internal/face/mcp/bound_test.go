package mcp_test

import (
	"context"
	"io"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/face/mcp"
	"fleet/internal/face/mcp/tool"
)

// flood is a connection to services that answer every call with huge messages, whatever limits the request has.
type flood struct {
	items int    // the number of items in each list
	text  string // the value of each text
	err   error  // the error of each call, instead of an answer
}

func (f flood) Invoke(_ context.Context, _ string, _, reply any, _ ...grpc.CallOption) error {
	if f.err != nil {
		return f.err
	}
	f.fill(reply.(proto.Message).ProtoReflect(), 0)
	return nil
}

func (f flood) NewStream(ctx context.Context, _ *grpc.StreamDesc, _ string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
	return &floodStream{flood: f, ctx: ctx}, f.err
}

type floodStream struct {
	grpc.ClientStream
	flood
	ctx  context.Context
	sent bool
}

func (f *floodStream) SendMsg(any) error        { return nil }
func (f *floodStream) CloseSend() error         { return nil }
func (f *floodStream) Context() context.Context { return f.ctx }

func (f *floodStream) RecvMsg(m any) error {
	if f.sent {
		return io.EOF
	}
	f.sent = true
	f.fill(m.(proto.Message).ProtoReflect(), 0)
	return nil
}

// fill sets the fields of the message, and of messages in it down to four levels. Of a oneof, it sets only texts. It sets the last
// value of each enum, which for a turn is `complete`.
func (f flood) fill(m protoreflect.Message, depth int) {
	items := f.items
	if depth > 0 {
		items = 3
	}
	for i := range m.Descriptor().Fields().Len() {
		field := m.Descriptor().Fields().Get(i)
		if depth > 3 && field.Message() != nil || field.ContainingOneof() != nil && !field.HasOptionalKeyword() && field.Kind() != protoreflect.StringKind {
			continue
		}
		switch {
		case field.IsMap():
			for j := range items {
				key := protoreflect.ValueOfString(strings.Repeat("k", j+1)).MapKey()
				m.Mutable(field).Map().Set(key, f.value(field.MapValue(), m.Mutable(field).Map().NewValue, depth))
			}
		case field.IsList():
			list := m.Mutable(field).List()
			for range items {
				list.Append(f.value(field, list.NewElement, depth))
			}
		default:
			m.Set(field, f.value(field, func() protoreflect.Value { return m.NewField(field) }, depth))
		}
	}
}

func (f flood) value(field protoreflect.FieldDescriptor, fresh func() protoreflect.Value, depth int) protoreflect.Value {
	switch field.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(f.text)
	case protoreflect.EnumKind:
		values := field.Enum().Values()
		return protoreflect.ValueOfEnum(values.Get(values.Len() - 1).Number())
	case protoreflect.MessageKind:
		v := fresh()
		if name := field.Message().FullName(); name == "google.protobuf.Timestamp" {
			v.Message().Set(field.Message().Fields().ByName("seconds"), protoreflect.ValueOfInt64(1_700_000_000))
		} else {
			f.fill(v.Message(), depth+1)
		}
		return v
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(1 << 30)
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(1 << 60)
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(1.0 / 3)
	}
	panic("a field of kind " + field.Kind().String() + ": fill it in")
}

// TestResultsAreBounded checks that no tool's result exceeds the limit, whatever the service answers, and that it still
// matches the output schema.
func TestResultsAreBounded(t *testing.T) {
	t.Parallel()
	const maxResult = mcp.MinMaxResult
	for name, f := range map[string]flood{
		"many items":      {items: 150, text: "some text of an item"},
		"long texts":      {items: 3, text: strings.Repeat("long \"ä\n", maxResult/4)},
		"escaped in JSON": {items: 3, text: strings.Repeat("\x00", maxResult+1_000)},
		"both":            {items: 50, text: strings.Repeat("x", maxResult/10)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachTool(t, f, mcp.Config{MaxResult: maxResult}, func(set string, l listedTool, r result) {
				require.False(t, r.IsError, r.Content)
				size := 0
				for _, c := range r.Content {
					size += len(c.Text)
				}
				require.LessOrEqual(t, size, maxResult, l.Name)
				require.JSONEq(t, r.Content[0].Text, string(r.StructuredContent))
				content, err := jsonschema.UnmarshalJSON(strings.NewReader(string(r.StructuredContent)))
				require.NoError(t, err)
				require.NoError(t, compileSchema(t, set+l.Name, l.OutputSchema).Validate(content), l.Name)
			})
		})
	}
}

func TestErrorsAreBounded(t *testing.T) {
	t.Parallel()
	long, err := status.New(codes.NotFound, strings.Repeat("no \"such\" thing ", tool.DefaultMaxResult/8)).WithDetails(
		&errdetails.ErrorInfo{Reason: "TASK_NOT_FOUND", Domain: "fleet"})
	require.NoError(t, err)
	eachTool(t, flood{err: long.Err()}, mcp.Config{}, func(_ string, l listedTool, r result) {
		require.True(t, r.IsError)
		require.LessOrEqual(t, len(r.Content[0].Text), tool.DefaultMaxResult, l.Name)
		require.Contains(t, r.Content[0].Text, "TASK_NOT_FOUND")
	})
}

// eachTool calls every tool of every toolset without arguments.
func eachTool(t *testing.T, conn grpc.ClientConnInterface, c mcp.Config, check func(set string, l listedTool, r result)) {
	t.Helper()
	c.Tools = []string{"*"}
	h := mcp.Handler(conn, c)
	ts := httptest.NewServer(h)
	t.Cleanup(ts.Close)
	toolMethods(func(set string, _ protoreflect.MethodDescriptor) {}, func(set string) {
		for name, l := range listTools(t, ts.URL+"/mcp/"+set) {
			check(set, l, post(t, ts.URL+"/mcp/"+set, call(1, name, `{}`, "")).result(t))
		}
	})
}

// toolMethods calls each with every method that is a tool, and eachSet with every toolset.
func toolMethods(each func(set string, m protoreflect.MethodDescriptor), eachSet func(set string)) {
	protoregistry.GlobalFiles.RangeFilesByPackage("fleet.v1", func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			s := f.Services().Get(i)
			set, _ := proto.GetExtension(s.Options(), fleetv1.E_Toolset).(string)
			if set == "" {
				continue
			}
			for j := range s.Methods().Len() {
				if no, _ := proto.GetExtension(s.Methods().Get(j).Options(), fleetv1.E_NoTool).(bool); !no {
					each(set, s.Methods().Get(j))
				}
			}
			eachSet(set)
		}
		return true
	})
}

// hasCut reports whether a field of the message, or of a message nested in it outside lists and maps, has options for cutting it.
func hasCut(m protoreflect.MessageDescriptor) bool {
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		if proto.HasExtension(f.Options(), fleetv1.E_Cut) || f.Message() != nil && !f.IsList() && !f.IsMap() && f.Message() != m && hasCut(f.Message()) {
			return true
		}
	}
	return false
}

// TestEveryToolIsBounded checks that every tool has options for cutting its answer, or an option that says that the
// answer is always small, or is shortened in another way.
func TestEveryToolIsBounded(t *testing.T) {
	t.Parallel()
	toolMethods(func(_ string, m protoreflect.MethodDescriptor) {
		hasOption := proto.HasExtension(m.Options(), fleetv1.E_Portion) || proto.HasExtension(m.Options(), fleetv1.E_SmallAnswer) ||
			proto.HasExtension(m.Options(), fleetv1.E_ShortenedAnswer)
		if !hasOption && !hasCut(m.Output()) {
			t.Errorf("%s: set fleet.v1.portion, small_answer or shortened_answer, or fleet.v1.cut on a field of its response", m.FullName())
		}
	}, func(string) {})
}
