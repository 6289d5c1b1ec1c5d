// Package crash kills real servers at the worst moments and checks that the next server repairs everything: every agent
// and task reaches its true state, no task runs twice, and no process is left.
package crash

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/app"
	"fleet/internal/model/run"
	"fleet/internal/place/local"
	"fleet/internal/reconcile"
	"fleet/internal/runner"
	"fleet/internal/runner/driver"
	"fleet/internal/state"
	"fleet/internal/store/postgres/pgtest"
	"fleet/internal/waittest"
)

// These variables configure the server when the test binary runs as one.
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

// serve runs a server until SIGTERM. The server kills itself when it reaches the fault point.
func serve(data, point string) error {
	cfg := app.DefaultConfig()
	cfg.HTTP, cfg.GRPC, cfg.Data, cfg.StopGrace, cfg.CreateWait = "127.0.0.1:0", "127.0.0.1:0", data, 200*time.Millisecond, waittest.Limit
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

// TestServerKilledAtEveryPoint kills the server once at each fault point, while an agent works, is stopped and is deleted. The next
// server must continue, and no task may run twice.
func TestServerKilledAtEveryPoint(t *testing.T) {
	t.Parallel()
	for _, point := range reconcile.FaultPoints {
		if point == reconcile.FaultResultsAwaited { // see TestWokenOnceAcrossKills in internal/reconcile
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

// checkMessages checks that an agent receives each message once, also if two messages have the same text.
func (s *supervisor) checkMessages() {
	s.t.Helper()
	task := s.startTask("told", `until [ "$line" = end ]; do read -t 60 line <"$FLEET_MESSAGES" || continue; [ "$line" = end ] || echo got $line; done`)
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

// checkChecks checks that each attempt of a task runs once, and that its check runs once after each attempt.
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
