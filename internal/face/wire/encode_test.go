package wire_test

import (
	"bytes"
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"pgregory.net/rapid"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/face/wire"
)

// TestMarshalWritesWhatProtojsonWrites compares both on random messages of every type of the API, and of types with
// kinds of fields that the API does not have yet.
func TestMarshalWritesWhatProtojsonWrites(t *testing.T) {
	t.Parallel()
	var messages []protoreflect.MessageType
	protoregistry.GlobalTypes.RangeMessages(func(m protoreflect.MessageType) bool {
		if d := m.Descriptor(); d.ParentFile().Package() == fleetv1.File_fleet_v1_agent_proto.Package() && !d.IsMapEntry() {
			messages = append(messages, m)
		}
		return true
	})
	require.Greater(t, len(messages), 40)
	for _, m := range []proto.Message{
		&wrapperspb.StringValue{}, &wrapperspb.BytesValue{}, &wrapperspb.BoolValue{}, &wrapperspb.Int32Value{}, &wrapperspb.UInt32Value{},
		&wrapperspb.Int64Value{}, &wrapperspb.UInt64Value{}, &wrapperspb.FloatValue{}, &wrapperspb.DoubleValue{},
	} {
		messages = append(messages, m.ProtoReflect().Type())
	}
	for _, m := range messages {
		t.Run(string(m.Descriptor().Name()), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				x := m.New()
				fill(t, x, 3)
				sameAsProtojson(t, x.Interface())
			})
		})
	}
}

func sameAsProtojson(t require.TestingT, m proto.Message) {
	loose, err := protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}.Marshal(m)
	require.NoError(t, err)
	var want bytes.Buffer
	require.NoError(t, json.Compact(&want, loose))
	got, err := wire.Marshal(m)
	require.NoError(t, err)
	require.Equal(t, want.String(), string(got))
}

// fill sets fields of the message at random.
func fill(t *rapid.T, m protoreflect.Message, depth int) {
	if m.Descriptor().FullName() == "google.protobuf.Timestamp" {
		m.Set(m.Descriptor().Fields().ByName("seconds"), protoreflect.ValueOfInt64(rapid.Int64Range(-1e9, 1e10).Draw(t, "seconds")))
		m.Set(m.Descriptor().Fields().ByName("nanos"), protoreflect.ValueOfInt32(rapid.SampledFrom([]int32{0, 1, 5e8}).Draw(t, "nanos")))
		return
	}
	if m.Descriptor().FullName() == "google.protobuf.Value" { // an empty Value cannot be written
		text := rapid.String().Draw(t, "string")
		m.Set(m.Descriptor().Fields().ByName("string_value"), protoreflect.ValueOfString(text))
		return
	}
	for i := range m.Descriptor().Fields().Len() {
		f := m.Descriptor().Fields().Get(i)
		n := rapid.IntRange(0, 2).Draw(t, string(f.Name()))
		switch {
		case n == 0 || depth == 0:
		case f.IsMap():
			for range n {
				m.Mutable(f).Map().Set(value(t, f.MapKey(), nil, depth).MapKey(), value(t, f.MapValue(), m.Mutable(f).Map().NewValue, depth))
			}
		case f.IsList():
			for range n {
				m.Mutable(f).List().Append(value(t, f, m.Mutable(f).List().NewElement, depth))
			}
		default:
			m.Set(f, value(t, f, func() protoreflect.Value { return m.NewField(f) }, depth))
		}
	}
}

// value returns a random value for field f; empty makes an empty message.
func value(t *rapid.T, f protoreflect.FieldDescriptor, empty func() protoreflect.Value, depth int) protoreflect.Value {
	switch f.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(rapid.Bool().Draw(t, "bool"))
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(rapid.String().Draw(t, "string"))
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(rapid.IntRange(0, 30).Draw(t, "enum"))) // also unknown ones
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOfInt32(rapid.Int32().Draw(t, "int32"))
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return protoreflect.ValueOfInt64(rapid.Int64().Draw(t, "int64"))
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(rapid.Uint32().Draw(t, "uint32"))
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(rapid.Uint64().Draw(t, "uint64"))
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(rapid.Float32().Draw(t, "float"))
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(rapid.Float64().Draw(t, "double"))
	}
	v := empty()
	fill(t, v.Message(), depth-1)
	return v
}

func TestMarshalWritesWhatTheAPIHasNotYet(t *testing.T) {
	t.Parallel()
	for _, m := range []proto.Message{
		wrapperspb.Double(math.NaN()), wrapperspb.Double(math.Inf(1)), wrapperspb.Float(float32(math.Inf(-1))), wrapperspb.Float(0.1), wrapperspb.Double(1e21),
		structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{"b": structpb.NewNumberValue(1), "a": structpb.NewNullValue()}}),
		wrapperspb.String("\x00\b\f\n\r\t\x1f \x7f\u2028\ufffd<&>\"\\/\U0001F600"),
	} {
		sameAsProtojson(t, m)
	}
}

func TestMarshalRefusesWhatIsNotText(t *testing.T) {
	t.Parallel()
	_, err := wire.Marshal(&fleetv1.Task{Id: "a\xff"})
	require.ErrorContains(t, err, "not valid UTF-8")
}

func BenchmarkMarshal(b *testing.B) {
	m := &fleetv1.ListAgentsResponse{}
	for range 100 {
		m.Agents = append(m.Agents, &fleetv1.AgentSummary{
			Name: "agent-1", Status: fleetv1.Agent_busy, State: fleetv1.Agent_running, Role: "coder", Project: "Setup",
			CurrentTask: wrapperspb.String("Find out why the nightly build fails"), Owner: "local",
		})
	}
	for b.Loop() {
		if _, err := wire.Marshal(m); err != nil {
			b.Fatal(err)
		}
	}
}
