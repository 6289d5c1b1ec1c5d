package crash

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/store/postgres/pgtest"
)

// TestReplicaKilledWhileATaskRuns starts two servers with one database, and kills one while a task runs on its machine.
// A client that follows the task on the other server must receive all of its output, and no event twice.
func TestReplicaKilledWhileATaskRuns(t *testing.T) {
	t.Parallel()
	store := pgtest.URL(t)
	one, two := superviseOn(t, "", store), superviseOn(t, "", store)
	gateFile := filepath.Join(taskFilesDir(one.data), "open")

	require.Contains(t, one.createAgent().GetPlace(), "local@")
	task := two.startTask("task", fmt.Sprintf("echo ran >>%[1]s.count\nfor i in 1 2 3; do echo line $i; done\nwhile ! [ -e %[1]s ]; do sleep 0.05; done\necho well", gateFile))

	var text, cursor string
	watch := func() grpc.ServerStreamingClient[fleetv1.WatchFleetResponse] {
		stream, err := two.client().WatchFleet(t.Context(), &fleetv1.WatchFleetRequest{TaskId: task, Follow: true, WaitSeconds: new(int32(50)), Cursor: cursor})
		require.NoError(t, err)
		return stream
	}
	stream := watch()
	var cursors []string
	receive := func() (ended bool) {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) { // the time to wait is over
			stream = watch()
			return false
		}
		require.NoError(t, err)
		cursor = m.GetCursor()
		for _, e := range m.GetEvents() {
			cursors = append(cursors, e.GetCursor())
			if e.GetType() == fleetv1.Event_task_output {
				text += e.GetText()
			}
			ended = ended || e.GetType() == fleetv1.Event_task_ended
		}
		return ended
	}
	for !strings.Contains(text, "line 3") {
		require.False(t, receive())
	}
	raw := call(two, fleetv1.FleetServiceClient.ShowTaskOutput, &fleetv1.ShowTaskOutputRequest{TaskId: task})
	require.Equal(t, "line 1\nline 2\nline 3\n", raw.GetOutput(), "the server must read the output from the machine of the other server")

	one.kill()
	require.NoError(t, os.WriteFile(gateFile, nil, 0o600)) // the run continues without the server
	for ended := false; !ended; {
		ended = receive()
	}
	require.Equal(t, "line 1\nline 2\nline 3\nwell\n", text)
	require.Len(t, slices.Compact(slices.Sorted(slices.Values(cursors))), len(cursors), "no event may arrive twice")
	two.awaitCompleted(task)
	require.Equal(t, text, one.output(task), "both servers must show the same log")
	count, err := os.ReadFile(gateFile + ".count")
	require.NoError(t, err)
	require.Equal(t, "ran\n", string(count))

	call(two, fleetv1.FleetServiceClient.DeleteAgent, &fleetv1.DeleteAgentRequest{AgentName: "papi", RequestId: "delete"})
	require.Empty(t, call(two, fleetv1.FleetServiceClient.ListAgents, &fleetv1.ListAgentsRequest{}).GetAgents())
	one.awaitNothingLeft()
}
