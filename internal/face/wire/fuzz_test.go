package wire_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/face/wire"
)

// FuzzUnmarshal checks that whatever a client sends is either read or refused with a reason. A message that was read
// means the same after it is written and read again. Nothing is read that standard ProtoJSON does not read.
func FuzzUnmarshal(f *testing.F) {
	for _, seed := range []string{
		``, `null`, `{}`, `[]`, `{"agent_name":"papi","page":1,"page_size":20}`, `{"page":"x"}`, `{"page":1e2}`, `{"page":-0}`,
		`{"task_ids":["a","b"],"mode":"any","timeout_seconds":5}`, `{"name":"papi","project":"Setup","spec":"\ud83d\ude00"}`,
		`{"status":"idle","metadata":{"a":"b"},"current_task":null,"created_at":"2025-10-29T10:00:00Z"}`, `{"created_at":"2025-10-29T10:00:00.5+01:00"}`,
		`{"a":{"b":[{"c":[1,2,{}]}]}}`, "{\"name\":\"\xff\"}", `{"name":"a"}{`, `{"status":1}`, `{"metadata":{"k":1}}`, `{"follow":true,"cursor":"now"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, m := range []proto.Message{
			&fleetv1.CreateAgentRequest{}, &fleetv1.ListAgentsRequest{}, &fleetv1.WaitTasksRequest{}, &fleetv1.WatchFleetRequest{}, &fleetv1.Agent{},
		} {
			if err := wire.Unmarshal(data, m); err != nil {
				require.Equal(t, codes.InvalidArgument, status.Code(err))
				require.NotEmpty(t, wire.ErrorOf(err).Reason)
				continue
			}
			written, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
			require.NoError(t, err)
			again := m.ProtoReflect().New().Interface()
			require.NoError(t, wire.Unmarshal(written, again), string(written))
			require.True(t, proto.Equal(m, again), string(written))
		}
	})
}
