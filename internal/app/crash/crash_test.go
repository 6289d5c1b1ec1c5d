// Package crash kills real servers at the worst moments and checks that the next server repairs everything: every agent
// and task reaches its true state, no task runs twice, and no process is left.
package crash

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/app"
	"fleet/internal/model/run"
	"fleet/internal/notify"
	"fleet/internal/place/local"
	"fleet/internal/reconcile"
	"fleet/internal/runner"
	"fleet/internal/runner/driver"
	"fleet/internal/state"
	"fleet/internal/store/postgres/pgtest"
	"fleet/internal/store/sqlite/sqlitetest"
	"fleet/internal/waittest"
)

const (
	dataEnv  = "CRASH_TEST_DATA"
	storeEnv = "CRASH_TEST_STORE"
	pointEnv = "CRASH_TEST_POINT"
)

// TestMain lets the test binary also act as a server that dies at a given point, as the shim of the server's runs, and
// as a run of a model.
func TestMain(m *testing.M) {
	if code, ran := runner.Main(os.Args[1:]); ran {
		os.Exit(code)
	}
	if len(os.Args) > 1 && os.Args[1] == "model-run" {
		os.Exit(run.Main())
	}
	if data := os.Getenv(dataEnv); data != "" {
		if err := serve(data, os.Getenv(pointEnv)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(pgtest.Run(m))
}

// taskFilesDir returns the directory next to the data directory in which tasks leave files for the test.
func taskFilesDir(data string) string { return filepath.Join(filepath.Dir(data), "witness") }

// definitionsDir returns the directory next to the data directory that holds the agent files of sessions.
func definitionsDir(data string) string { return filepath.Join(filepath.Dir(data), "agents") }

func serve(data, point string) error {
	cfg := app.DefaultConfig()
	cfg.HTTP, cfg.GRPC, cfg.Data, cfg.StopGrace = "127.0.0.1:0", "127.0.0.1:0", data, 200*time.Millisecond
	cfg.Local.Projects = []local.Project{{
		Name: "shell", Write: []string{taskFilesDir(data)}, Roles: []local.Role{{Name: "operator", Permissions: &driver.Permissions{}}},
	}}
	cfg.Local.PassEnv = []string{"GORACE"}
	cfg.Sessions.AgentsDir, cfg.Store = definitionsDir(data), os.Getenv(storeEnv)
	a, err := app.Open(context.Background(), cfg, app.Options{
		Log:  os.Stderr,
		Core: func(c *state.Config) { c.LeaseTTL = 2 * time.Second },
		Fault: func(p string) {
			if p == point {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {} // wait for the end of the process
			}
		},
	})
	if err != nil {
		return err
	}
	s, err := a.Listen("test")
	if err != nil {
		return err
	}
	fmt.Println(s.GRPCAddr())
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	return s.Serve(ctx)
}

// supervisor keeps a server running: when the server dies, it starts the next one. Only the first server dies at the
// given point.
type supervisor struct {
	t     *testing.T
	data  string
	store string // see app.Config

	mu     sync.Mutex
	cmd    *exec.Cmd
	conn   *grpc.ClientConn
	deaths int
	died   notify.Subscribers
	testEnded  bool
	done   chan struct{}
}

func supervise(t *testing.T, point string) *supervisor {
	store := ""
	if pgtest.Enabled() {
		store = pgtest.URL(t)
	}
	return superviseOn(t, point, store)
}

// superviseOn is supervise for servers that use the given store.
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
			s.died.Notify()
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

// logWriter writes the log of a server to the test's log. The test waits for the end of its servers, so it also gets their
// last lines.
type logWriter struct{ t *testing.T }

func (l *logWriter) Write(b []byte) (int, error) {
	l.t.Logf("%s", b)
	return len(b), nil
}

// call retries a call with a request id until a server answers. While no server runs, it waits: the connection is
// closed when the next server has replaced the old one.
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

func TestServerKilledAtEveryPoint(t *testing.T) {
	t.Parallel()
	for _, point := range reconcile.FaultPoints {
		if point == reconcile.FaultResultsAwaited { // agents delegate in TestWokenOnceAcrossKills
			continue
		}
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			s := supervise(t, point)
			count := filepath.Join(taskFilesDir(s.data), "count")
			s.createAgent()

			short := s.startTask("short", fmt.Sprintf("echo ran >>%s\nfor i in 1 2 3 4 5; do echo line $i; sleep 0.05; done\necho well", count))
			s.awaitCompleted(short)
			require.Equal(t, "line 1\nline 2\nline 3\nline 4\nline 5\nwell\n", s.output(short))
			s.checkMessages()
			s.checkQuestions()
			s.checkChecks()

			long := s.startTask("long", fmt.Sprintf("echo ran >>%s\ntrap '' TERM\nwhile :; do sleep 0.1; done", count))
			waittest.Until(t, "a program that writes to a file gives no signal", func() bool { b, _ := os.ReadFile(count); return strings.Count(string(b), "ran") >= 2 })
			stopped := call(s, fleetv1.FleetServiceClient.StopAgentTask, &fleetv1.StopAgentTaskRequest{AgentName: "papi", RequestId: "stop"})
			require.Equal(t, long, stopped.GetTask().GetId())
			require.Equal(t, fleetv1.Task_stopped, stopped.GetTask().GetStatus())

			off := call(s, fleetv1.FleetServiceClient.StopAgent, &fleetv1.StopAgentRequest{AgentName: "papi", RequestId: "off"})
			require.Equal(t, fleetv1.Agent_stopped, off.GetAgent().GetState())
			on := call(s, fleetv1.FleetServiceClient.StartAgent, &fleetv1.StartAgentRequest{AgentName: "papi", RequestId: "on"})
			require.Equal(t, fleetv1.Agent_idle, on.GetAgent().GetStatus())

			s.startTask("last", "setsid sleep 300 & sleep 300")
			call(s, fleetv1.FleetServiceClient.DeleteAgent, &fleetv1.DeleteAgentRequest{AgentName: "papi", RequestId: "delete"})
			require.Empty(t, call(s, fleetv1.FleetServiceClient.ListAgents, &fleetv1.ListAgentsRequest{}).GetAgents())

			b, err := os.ReadFile(count)
			require.NoError(t, err)
			require.Equal(t, 2, strings.Count(string(b), "ran"), "each task must run once")
			s.awaitNothingLeft()
			s.mu.Lock()
			defer s.mu.Unlock()
			require.Equal(t, 1, s.deaths, "the server must die once, at the point")
		})
	}
}

// checkMessages checks that an agent gets each message once.
func (s *supervisor) checkMessages() {
	s.t.Helper()
	task := s.startTask("told", "while read -t 60 line <\"$FLEET_MESSAGES\" && [ \"$line\" != end ]; do echo got $line; done")
	for i, text := range []string{"more light", "more light", "end"} {
		call(s, fleetv1.FleetServiceClient.SendTaskMessage, &fleetv1.SendTaskMessageRequest{
			AgentName: "papi", Message: text, RequestId: fmt.Sprint("message ", i),
		})
	}
	s.awaitCompleted(task)
	require.Equal(s.t, "got more light\ngot more light\n", s.output(task))
}

// checkQuestions checks that an agent gets the answers to its questions.
func (s *supervisor) checkQuestions() {
	s.t.Helper()
	task := s.startTask("asked", `"$FLEET_ASK" question "tabs or spaces?"; "$FLEET_ASK" permission Bash`)
	for i, answer := range []string{"spaces", "allow"} {
		var id string
		waittest.Until(s.t, "a stream of events would end with the server", func() bool {
			all := call(s, fleetv1.FleetServiceClient.ListQuestions, &fleetv1.ListQuestionsRequest{}).GetQuestions()
			if len(all) == 1 {
				id = all[0].GetId()
			}
			return len(all) == 1
		})
		call(s, fleetv1.FleetServiceClient.AnswerQuestion, &fleetv1.AnswerQuestionRequest{QuestionId: id, Answer: answer, RequestId: fmt.Sprint("answer ", i)})
	}
	s.awaitCompleted(task)
	require.Equal(s.t, "spaces\nallow\n", s.output(task))
}

// checkChecks checks that each attempt of a task and each of its checks run once.
func (s *supervisor) checkChecks() {
	s.t.Helper()
	tries, checks := filepath.Join(taskFilesDir(s.data), "tries"), filepath.Join(taskFilesDir(s.data), "checks")
	s.awaitCompleted(s.startTask("checked", "echo tried >>"+tries, fmt.Sprintf("echo checked >>%[1]s; [ $(wc -l <%[1]s) = 2 ]", checks)))
	for file, want := range map[string]string{tries: "tried\ntried\n", checks: "checked\nchecked\n"} {
		b, err := os.ReadFile(file)
		require.NoError(s.t, err)
		require.Equal(s.t, want, string(b))
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
	waited := call(s, fleetv1.FleetServiceClient.WaitTasks, &fleetv1.WaitTasksRequest{TaskIds: []string{task}})
	require.Equal(s.t, fleetv1.Task_completed, waited.GetTasks()[0].GetStatus(), waited.GetTasks()[0].GetReason())
}

// output returns the task's output in the event log.
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
func (s *supervisor) end(with syscall.Signal) {
	s.t.Helper()
	died, cancel := s.died.Subscribe()
	defer cancel()
	s.mu.Lock()
	before := s.deaths
	err := s.cmd.Process.Signal(with)
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

// remaining returns the processes that have the data directory in their command line, environment or working directory,
// except the server.
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
