package wire_test

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"pgregory.net/rapid"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/face/wire"
)

func TestMarshalWritesFieldsInOrder(t *testing.T) {
	t.Parallel()
	at := timestamppb.New(time.Date(2025, 10, 29, 10, 0, 0, 0, time.UTC))
	got, err := wire.Marshal(&fleetv1.ShowAgentResponse{Agent: &fleetv1.Agent{
		Name: "papi", WorkspaceId: "w-1", Status: fleetv1.Agent_busy, Role: "coder", Project: "Setup", Spec: "a <b> & \"c\"",
		CurrentTask: wrapperspb.String("Write tests"), CreatedAt: at, UpdatedAt: at,
		Metadata: map[string]string{"fleet_mcp_pull_request_url": "u", "fleet_mcp_agent_spec": "s"}, State: fleetv1.Agent_running,
	}})
	require.NoError(t, err)
	require.Equal(t, `{"agent":{"name":"papi","workspace_id":"w-1","status":"busy","role":"coder","project":"Setup",`+
		`"spec":"a <b> & \"c\"","current_task":"Write tests","created_at":"2025-10-29T10:00:00Z","updated_at":"2025-10-29T10:00:00Z",`+
		`"metadata":{"fleet_mcp_agent_spec":"s","fleet_mcp_pull_request_url":"u"},"state":"running","state_reason":"",`+
		`"current_task_id":null,"owner":"","location":"","place":"","shares":[],"links":[]},"observed_at":null,"rules":[]}`, string(got))
}

func TestMarshalWritesNullsNumbersAndEmptyLists(t *testing.T) {
	t.Parallel()
	got, err := wire.Marshal(&fleetv1.ListAgentsResponse{TotalCount: 3})
	require.NoError(t, err)
	require.Equal(t, `{"agents":[],"total_count":3,"observed_at":null,"places":[]}`, string(got))

	got, err = wire.Marshal(&fleetv1.Task{Id: "1", Status: fleetv1.Task_pending, Source: fleetv1.Task_human, CostUsd: 0.25})
	require.NoError(t, err)
	require.Equal(t, `{"id":"1","agent_name":"","summary":"","status":"pending","source":"human","created_at":null,`+
		`"started_at":null,"completed_at":null,"reason":"","payload_size":0,"cost_usd":0.25,"description":"","owner":""}`, string(got))
}

func TestMarshalOmitsUnsetOptionalFields(t *testing.T) {
	t.Parallel()
	got, err := wire.Marshal(&fleetv1.TaskDetail{})
	require.NoError(t, err)
	require.NotContains(t, string(got), "exit_code")
	require.NotContains(t, string(got), `"payload"`)
}

// requestTypes returns the types of the API's requests, sorted by name.
func requestTypes(t testing.TB) []protoreflect.MessageType {
	return typesWhere(t, func(name string) bool { return strings.HasSuffix(name, "Request") })
}

// otherTypes returns the types of the API's messages that are not requests, sorted by name.
func otherTypes(t testing.TB) []protoreflect.MessageType {
	return typesWhere(t, func(name string) bool { return !strings.HasSuffix(name, "Request") })
}

// typesWhere returns the types of the API's messages for whose names include returns true, sorted by name.
func typesWhere(t testing.TB, include func(name string) bool) []protoreflect.MessageType {
	var types []protoreflect.MessageType
	var add func(all protoreflect.MessageDescriptors)
	add = func(all protoreflect.MessageDescriptors) {
		for i := range all.Len() {
			m, err := protoregistry.GlobalTypes.FindMessageByName(all.Get(i).FullName())
			if err != nil {
				continue // the entries of a map have no Go type
			}
			if include(string(m.Descriptor().Name())) {
				types = append(types, m)
			}
			add(all.Get(i).Messages())
		}
	}
	protoregistry.GlobalFiles.RangeFilesByPackage("fleet.v1", func(f protoreflect.FileDescriptor) bool {
		add(f.Messages())
		return true
	})
	require.Greater(t, len(types), 50)
	slices.SortFunc(types, func(a, b protoreflect.MessageType) int {
		return strings.Compare(string(a.Descriptor().FullName()), string(b.Descriptor().FullName()))
	})
	return types
}

func TestMarshalWritesWhatProtojsonWrites(t *testing.T) {
	t.Parallel()
	for _, m := range otherTypes(t) {
		t.Run(string(m.Descriptor().Name()), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				x := m.New()
				fill(t, x, 3)
				requireSameAsProtojson(t, x.Interface())
			})
		})
	}
}

// FuzzMarshal compares Marshal with protojson on any message that the wire format can carry, of every type that the
// server sends.
func FuzzMarshal(f *testing.F) {
	types := otherTypes(f)
	for i, m := range []proto.Message{
		&fleetv1.ListAgentsResponse{Agents: []*fleetv1.AgentSummary{{Name: "a<\"\\\x00\u2028"}}, ObservedAt: timestamppb.Now()},
		&fleetv1.Task{CostUsd: math.Inf(-1), CreatedAt: &timestamppb.Timestamp{Seconds: math.MaxInt64}},
	} {
		data, err := proto.Marshal(m)
		require.NoError(f, err)
		f.Add(uint16(i), data)
	}
	f.Fuzz(func(t *testing.T, index uint16, data []byte) {
		m := types[int(index)%len(types)].New().Interface()
		if proto.Unmarshal(data, m) == nil {
			requireSameAsProtojson(t, m)
		}
	})
}

// requireSameAsProtojson fails the test unless Marshal returns what protojson returns, without spaces, or both fail.
func requireSameAsProtojson(t require.TestingT, m proto.Message) {
	got, gotErr := wire.Marshal(m)
	spacedJSON, err := protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}.Marshal(m)
	if err != nil {
		require.Error(t, gotErr)
		return
	}
	require.NoError(t, gotErr)
	var want bytes.Buffer
	require.NoError(t, json.Compact(&want, spacedJSON))
	require.Equal(t, want.String(), string(got))
}

// fill sets random fields of the message, and of the messages in it down to depth levels.
func fill(t *rapid.T, m protoreflect.Message, depth int) {
	switch m := m.Interface().(type) {
	case *timestamppb.Timestamp:
		m.Seconds = rapid.Int64Range(-1e9, 1e10).Draw(t, "seconds")
		m.Nanos = rapid.SampledFrom([]int32{0, 1, 5e8, 120e6, 34e3, 999999999}).Draw(t, "nanos")
		return
	case *structpb.Value:
		proto.Merge(m, anyValue(t))
		return
	case *structpb.Struct:
		proto.Merge(m, anyObject(t))
		return
	}
	for i := range m.Descriptor().Fields().Len() {
		f := m.Descriptor().Fields().Get(i)
		n := rapid.IntRange(0, 2).Draw(t, string(f.Name()))
		switch {
		case n == 0 || depth == 0:
		case f.IsMap():
			for range n {
				m.Mutable(f).Map().Set(anyFieldValue(t, f.MapKey(), nil, depth).MapKey(), anyFieldValue(t, f.MapValue(), m.Mutable(f).Map().NewValue, depth))
			}
		case f.IsList():
			for range n {
				m.Mutable(f).List().Append(anyFieldValue(t, f, m.Mutable(f).List().NewElement, depth))
			}
		default:
			m.Set(f, anyFieldValue(t, f, func() protoreflect.Value { return m.NewField(f) }, depth))
		}
	}
}

// anyValue returns a random JSON value.
func anyValue(t *rapid.T) *structpb.Value {
	switch rapid.IntRange(0, 5).Draw(t, "kind") {
	case 0:
		return structpb.NewNullValue()
	case 1:
		return structpb.NewBoolValue(rapid.Bool().Draw(t, "bool"))
	case 2:
		return structpb.NewNumberValue(rapid.Float64().Draw(t, "number"))
	case 3:
		return structpb.NewStringValue(rapid.String().Draw(t, "string"))
	case 4:
		list := &structpb.ListValue{}
		for range rapid.IntRange(0, 2).Draw(t, "len") {
			list.Values = append(list.Values, anyValue(t))
		}
		return structpb.NewListValue(list)
	}
	return structpb.NewStructValue(anyObject(t))
}

// anyObject returns a random JSON object.
func anyObject(t *rapid.T) *structpb.Struct {
	fields := map[string]*structpb.Value{}
	for range rapid.IntRange(0, 2).Draw(t, "len") {
		fields[rapid.String().Draw(t, "key")] = anyValue(t)
	}
	return &structpb.Struct{Fields: fields}
}

// anyFieldValue returns a random value for field f. The function empty returns an empty message for it.
func anyFieldValue(t *rapid.T, f protoreflect.FieldDescriptor, empty func() protoreflect.Value, depth int) protoreflect.Value {
	switch f.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(rapid.Bool().Draw(t, "bool"))
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(rapid.String().Draw(t, "string"))
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(rapid.IntRange(0, 30).Draw(t, "enum"))) // some of the values are unknown
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(rapid.Int32().Draw(t, "int32"))
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(rapid.Int64().Draw(t, "int64"))
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(rapid.Float64().Draw(t, "double"))
	}
	v := empty()
	fill(t, v.Message(), depth-1)
	return v
}

func TestMarshalWritesUnusualValues(t *testing.T) {
	t.Parallel()
	for _, x := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0.1, 1e21, 1e-7, 1e-10, -1e-9, 1e100, math.Copysign(0, -1)} {
		requireSameAsProtojson(t, &fleetv1.Task{CostUsd: x})
	}
	requireSameAsProtojson(t, &fleetv1.Task{Description: "\x00\b\f\n\r\t\x1f \x7f\u2028\ufffd<&>\"\\/\U0001F600"})
	for _, nanos := range []int32{1, 10, 999, 1000, 1e6, 123456789, 120e6} {
		requireSameAsProtojson(t, &fleetv1.Task{CreatedAt: &timestamppb.Timestamp{Seconds: 1e9, Nanos: nanos}})
	}
	requireSameAsProtojson(t, (*fleetv1.Task)(nil).ProtoReflect().New().Interface())
}

func TestMarshalErrors(t *testing.T) {
	t.Parallel()
	for _, m := range []proto.Message{
		&fleetv1.Task{Id: "a\xff"},
		&fleetv1.Task{CreatedAt: timestamppb.New(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC))},
		&fleetv1.Task{CreatedAt: &timestamppb.Timestamp{Nanos: -1}},
	} {
		_, err := wire.Marshal(m)
		require.ErrorContains(t, err, "wire: marshal fleet.v1.Task: ")
		requireSameAsProtojson(t, m)
	}
}

// longList returns a response with 100 agents.
func longList() *fleetv1.ListAgentsResponse {
	m := &fleetv1.ListAgentsResponse{TotalCount: 100, ObservedAt: timestamppb.Now()}
	for range 100 {
		m.Agents = append(m.Agents, &fleetv1.AgentSummary{
			Name: "agent-001", Status: fleetv1.Agent_busy, State: fleetv1.Agent_running, Role: "coder", Project: "Setup",
			CurrentTask: wrapperspb.String("Find out why the nightly build fails"), Owner: "local",
		})
	}
	return m
}

func BenchmarkMarshal(b *testing.B) {
	m := longList()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := wire.Marshal(m); err != nil {
			b.Fatal(err)
		}
	}
}
