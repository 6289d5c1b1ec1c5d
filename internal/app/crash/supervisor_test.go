package crash

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/notify"
	"fleet/internal/store/postgres/pgtest"
	"fleet/internal/store/sqlite/sqlitetest"
	"fleet/internal/waittest"
)

// supervisor keeps a server running: when the server dies, it starts the next one.
type supervisor struct {
	t     *testing.T
	data  string
	store string // the setting store of the servers

	mu          sync.Mutex
	cmd         *exec.Cmd
	conn        *grpc.ClientConn
	deaths      int // how many servers have died
	deathSignal notify.Subscribers
	testEnded   bool          // the server that dies now is the last one
	done        chan struct{} // closed when the last server has ended
}

// supervise starts a server with a supervisor. The server dies when it reaches the fault point, and the servers after it do not. If
// point is empty, it does not die by itself. The servers use Postgres if the tests have it, and SQLite otherwise.
func supervise(t *testing.T, point string) *supervisor {
	store := ""
	if pgtest.Enabled() {
		store = pgtest.URL(t)
	}
	return superviseOn(t, point, store)
}

// superviseOn is supervise for servers that use the database at the URL store, or SQLite if store is empty.
func superviseOn(t *testing.T, point, store string) *supervisor {
	dir := t.TempDir()
	s := &supervisor{t: t, data: filepath.Join(dir, "data"), store: store, done: make(chan struct{})}
	for _, dir := range []string{s.data, taskFilesDir(s.data), definitionsDir(s.data)} {
		require.NoError(t, os.Mkdir(dir, 0o700))
	}
	if store == "" {
		require.NoError(t, sqlitetest.Create(filepath.Join(s.data, "fleet.db")))
	}
	s.startServer(point)
	go func() {
		defer close(s.done)
		for {
			_ = s.cmd.Wait()
			s.mu.Lock()
			if s.testEnded {
				s.mu.Unlock()
				return
			}
			s.deaths++
			s.mu.Unlock()
			s.deathSignal.Notify()
			s.startServer("")
		}
	}()
	t.Cleanup(func() {
		s.mu.Lock()
		s.testEnded = true
		_ = s.cmd.Process.Kill()
		s.mu.Unlock()
		<-s.done
		_ = s.conn.Close()
	})
	return s
}

// startServer starts a server that dies at the fault point, and connects to it.
func (s *supervisor) startServer(point string) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "GORACE="+cmp.Or(os.Getenv("GORACE"), "atexit_sleep_ms=0"), dataEnv+"="+s.data, storeEnv+"="+s.store, pointEnv+"="+point, "ANTHROPIC_API_KEY="+stubKey)
	cmd.Stderr = &logWriter{t: s.t}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		s.t.Error(err)
		return
	}
	lines := bufio.NewScanner(out)
	lines.Scan()
	conn, err := grpc.NewClient(lines.Text(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		s.t.Error(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil {
		_ = s.conn.Close()
	}
	s.cmd, s.conn = cmd, conn
	if s.testEnded {
		_ = cmd.Process.Kill()
	}
}

// pid returns the id of the server's process.
func (s *supervisor) pid() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cmd.Process.Pid
}

func (s *supervisor) client() fleetv1.FleetServiceClient {
	return fleetv1.NewFleetServiceClient(s.connection())
}

func (s *supervisor) connection() *grpc.ClientConn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conn
}

// logWriter writes the log of a server to the test's log. The test waits for the end of its servers, so its log has their last
// lines too.
type logWriter struct{ t *testing.T }

func (l *logWriter) Write(b []byte) (int, error) {
	l.t.Logf("%s", b)
	return len(b), nil
}

// call makes a call, and repeats it until a server answers. The call must be safe to repeat: it only reads, or it has a request id.
// Any error other than that of a dead server fails the test. While no server runs, call waits: the connection is closed when the next
// server has replaced the old one.
func call[Q, R any](s *supervisor, method func(fleetv1.FleetServiceClient, context.Context, Q, ...grpc.CallOption) (R, error), q Q) R {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), waittest.Limit)
	defer cancel()
	for {
		r, err := method(s.client(), ctx, q, grpc.WaitForReady(true))
		switch status.Code(err) {
		case codes.OK:
			return r
		case codes.Unavailable, codes.Canceled: // the server died, or the connection was replaced
			if ctx.Err() == nil {
				continue
			}
		}
		require.NoError(s.t, err)
	}
}

// createAgent creates the agent papi.
func (s *supervisor) createAgent() *fleetv1.Agent {
	s.t.Helper()
	created := call(s, fleetv1.FleetServiceClient.CreateAgent, &fleetv1.CreateAgentRequest{Name: "papi", Project: "shell", Spec: "x", RequestId: "create"})
	require.Equal(s.t, fleetv1.Agent_idle, created.GetAgent().GetStatus(), created.GetMessage())
	return created.GetAgent()
}

// startTask starts a task of papi, and returns its id.
func (s *supervisor) startTask(requestID, script string, checks ...string) string {
	s.t.Helper()
	return call(s, fleetv1.FleetServiceClient.StartAgentTask, &fleetv1.StartAgentTaskRequest{
		AgentName: "papi", RequestId: requestID, TaskDescription: script, Checks: checks,
	}).GetTask().GetId()
}

// awaitCompleted waits until the task has ended, and checks that it is completed.
func (s *supervisor) awaitCompleted(task string) {
	s.t.Helper()
	waited := &fleetv1.WaitTasksResponse{}
	for !waited.GetDone() {
		waited = call(s, fleetv1.FleetServiceClient.WaitTasks, &fleetv1.WaitTasksRequest{TaskIds: []string{task}})
	}
	require.Equal(s.t, fleetv1.Task_completed, waited.GetTasks()[0].GetStatus(), waited.GetTasks()[0].GetReason())
}

// output returns the output of the task that the event log has now.
func (s *supervisor) output(taskID string) (text string) {
	stream, err := s.client().WatchFleet(s.t.Context(), &fleetv1.WatchFleetRequest{TaskId: taskID})
	require.NoError(s.t, err)
	for {
		m, err := stream.Recv()
		if err != nil {
			return text
		}
		for _, e := range m.GetEvents() {
			if e.GetType() == fleetv1.Event_task_output {
				text += e.GetText()
			}
		}
	}
}

// kill kills the server, and waits until it has ended. Then the supervisor starts the next server.
func (s *supervisor) kill() {
	s.t.Helper()
	s.end(syscall.SIGKILL)
}

// end sends the server the signal, and waits until it has ended.
func (s *supervisor) end(sig syscall.Signal) {
	s.t.Helper()
	died, cancel := s.deathSignal.Subscribe()
	defer cancel()
	s.mu.Lock()
	before := s.deaths
	err := s.cmd.Process.Signal(sig)
	s.mu.Unlock()
	require.NoError(s.t, err)
	waittest.UntilSignalled(s.t, died, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.deaths > before
	})
}

// awaitNothingLeft waits until no process, except the server, has the data directory in its command line, environment
// or working directory. Reading about all processes is slow, so it looks at all processes again only after the
// processes that it has found have ended.
func (s *supervisor) awaitNothingLeft() {
	s.t.Helper()
	var found []string
	waittest.Until(s.t, "processes that are not children give no signal when they end", func() bool {
		if found = s.remaining(found); len(found) == 0 {
			all, err := filepath.Glob("/proc/[0-9]*")
			require.NoError(s.t, err)
			found = s.remaining(all)
		}
		return len(found) == 0
	})
}

// remaining returns those of the processes that have the data directory in their command line, environment or working directory,
// except the server. A process is its directory in /proc.
func (s *supervisor) remaining(processes []string) (found []string) {
	server := fmt.Sprint(s.pid())
	for _, dir := range processes {
		if filepath.Base(dir) == server {
			continue
		}
		cmdline, _ := os.ReadFile(filepath.Join(dir, "cmdline")) // the process may have ended by now
		environ, _ := os.ReadFile(filepath.Join(dir, "environ"))
		cwd, _ := os.Readlink(filepath.Join(dir, "cwd"))
		if strings.Contains(string(cmdline)+string(environ)+cwd, s.data) {
			found = append(found, dir)
		}
	}
	return found
}
