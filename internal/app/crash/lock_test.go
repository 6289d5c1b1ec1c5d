package crash

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	fleetv1 "fleet/gen/fleet/v1"
)

// TestOneServerForADirectory starts a second server on the data directory of a running one. The second server must end with an
// error that names the first one, and the first one must continue. After a kill, the next server must start although processes
// that the killed server has started still run.
func TestOneServerForADirectory(t *testing.T) {
	t.Parallel()
	s := supervise(t, "")
	s.createAgent()
	gate := filepath.Join(taskFilesDir(s.data), "gate")
	require.NoError(t, syscall.Mkfifo(gate, 0o600))
	task := s.startTask("task", "read line <"+gate+"; echo got $line")

	second := exec.CommandContext(t.Context(), os.Args[0])
	second.Env = append(os.Environ(), dataEnv+"="+s.data, storeEnv+"="+s.store)
	var stderr bytes.Buffer
	second.Stderr = &stderr
	require.Error(t, second.Run())
	require.Contains(t, stderr.String(), "the data directory "+s.data+" is in use by process "+strconv.Itoa(s.pid())+", which serves gRPC at "+s.connection().Target())

	gateWriter, err := os.OpenFile(gate, os.O_WRONLY, 0) // waits until the program of the task reads
	require.NoError(t, err)
	s.kill()
	shown := call(s, fleetv1.FleetServiceClient.ShowTask, &fleetv1.ShowTaskRequest{TaskId: task}).GetTask()
	require.Equal(t, fleetv1.Task_running, shown.GetStatus(), shown.GetReason())
	_, err = gateWriter.WriteString("on\n")
	require.NoError(t, err)
	require.NoError(t, gateWriter.Close())
	s.awaitCompleted(task)
	require.Equal(t, "got on\n", s.output(task))
}
