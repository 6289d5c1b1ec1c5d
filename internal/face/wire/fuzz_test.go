package wire_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"pgregory.net/rapid"

	"fleet/internal/face/wire"
)

// TestUnmarshalReadsWhatProtojsonWrites checks that Unmarshal reads random requests of every type from the JSON that protojson
// writes for them.
func TestUnmarshalReadsWhatProtojsonWrites(t *testing.T) {
	t.Parallel()
	for _, m := range requestTypes(t) {
		t.Run(string(m.Descriptor().Name()), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				x := m.New()
				fill(t, x, 3)
				clearRefusedEnums(x)
				data, err := protojson.MarshalOptions{UseProtoNames: true, Multiline: rapid.Bool().Draw(t, "multiline")}.Marshal(x.Interface())
				require.NoError(t, err)
				got := m.New().Interface()
				require.NoError(t, wire.Unmarshal(data, got), string(data))
				require.Empty(t, diff(x.Interface(), got), string(data))
			})
		})
	}
}

// clearRefusedEnums clears the enum values that Unmarshal refuses because they are unknown or zero, in a message and in the messages
// of its single fields. Messages in lists and maps of requests have no enums.
func clearRefusedEnums(x protoreflect.Message) {
	x.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		isKnown := func(n protoreflect.EnumNumber) bool { return n != 0 && f.Enum().Values().ByNumber(n) != nil }
		switch {
		case f.Kind() == protoreflect.EnumKind && f.IsList():
			kept := x.NewField(f).List()
			for i := range v.List().Len() {
				if isKnown(v.List().Get(i).Enum()) {
					kept.Append(v.List().Get(i))
				}
			}
			x.Clear(f)
			if kept.Len() > 0 {
				x.Set(f, protoreflect.ValueOfList(kept))
			}
		case f.Kind() == protoreflect.EnumKind:
			if !isKnown(v.Enum()) {
				x.Clear(f)
			}
		case f.Kind() == protoreflect.MessageKind && !f.IsList() && !f.IsMap():
			clearRefusedEnums(v.Message())
		}
		return true
	})
}

// FuzzUnmarshal checks that any input from a client is either refused with a reason, or read as protojson reads it.
func FuzzUnmarshal(f *testing.F) {
	types := requestTypes(f)
	for i, seed := range []string{
		``, `null`, `{}`, `[]`, `[1e999]`, `{"agent_name":"papi","page":1,"page_size":20}`, `{"page":"x"}`, `{"page":1e2}`, `{"page":-0}`, `{"page":1.0e0}`,
		`{"task_ids":["a","b"],"mode":"any","timeout_seconds":5}`, `{"name":"papi","project":"Setup","spec":"\ud83d\ude00"}`,
		`{"status":"idle","offset":"12","cursor":null,"since":"2025-10-29T10:00:00Z"}`, `{"since":"2025-10-29T10:00:00.5+01:00"}`,
		`{"context":{"b":[{"c":[1,2,{}]},true,false,null,"x",1e2]}}`, "{\"name\":\"\xff\"}", `{"name":"a"}{`, `{"status":1}`, `{"follow":true,"cursor":"now"}`,
		`{"attachments":[{"name":"a","content":"aGk="},{}]}`, `{"content":"_-8"}`,
	} {
		f.Add(uint16(i), []byte(seed))
	}
	f.Fuzz(func(t *testing.T, index uint16, data []byte) {
		m := types[int(index)%len(types)].New().Interface()
		if err := wire.Unmarshal(data, m); err != nil {
			require.Equal(t, codes.InvalidArgument, status.Code(err))
			require.NotEmpty(t, wire.ErrorOf(err).Reason)
			return
		}
		want := m.ProtoReflect().New().Interface()
		if err := protojson.Unmarshal(data, want); err != nil { // protojson does not accept empty input and null
			require.True(t, proto.Equal(m, want), "%s: %v", data, err)
			require.NotContains(t, string(data), "{")
			return
		}
		require.Empty(t, diff(want, m), string(data))
	})
}
