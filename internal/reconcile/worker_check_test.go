package reconcile_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/service"
	"fleet/internal/service/servicetest"
	"fleet/internal/state"
)

// checksWorld is a world whose agents can run checks and report changes.
var checksWorld = fake.Config{Traits: fleet.Traits{SupportsChecks: true, HasProjectChecks: true, SupportsChanges: true}}

// startTaskWithChecks starts a task with checks.
func startTaskWithChecks(h *servicetest.Harness, agent, prompt string, retries int, checks ...string) *fleet.Task {
	h.T.Helper()
	task, err := h.StartTask(h.Context(), service.StartTaskRequest{
		Agent: agent, Description: prompt, Checks: fleet.Checks{Commands: checks, Retries: &retries},
	})
	require.NoError(h.T, err)
	return task
}

// checkStatuses returns the statuses of the task's checks, in their order. It returns nil if the task has no checks.
func checkStatuses(h *servicetest.Harness, id string) (statuses []fleet.CheckStatus) {
	h.T.Helper()
	c, err := h.TaskChecks(h.Context(), id)
	require.NoError(h.T, err)
	if c == nil {
		return nil
	}
	for _, r := range c.Results {
		statuses = append(statuses, r.Status)
	}
	return statuses
}

// shownResults returns the results that the view of the agent has.
func shownResults(v *fleet.AgentView) []fleet.CheckResult {
	if v.Checks == nil {
		return nil
	}
	return v.Checks.Results
}

// endTimePlace is a place whose runs report the time of their end.
type endTimePlace struct{ *fake.Place }

func (e endTimePlace) Connect(a fleet.Agent) fleet.Runner { return endTimeRunner{e.Place.Connect(a)} }

type endTimeRunner struct{ fleet.Runner }

func (e endTimeRunner) Follow(ctx context.Context, r fleet.Run, cursor string, sink func(fleet.Output) error) (fleet.Outcome, error) {
	o, err := e.Runner.Follow(ctx, r, cursor, sink)
	o.EndedAt = time.Now()
	return o, err
}

// TestEndOfChecks checks that the end of a task is the end of its checks, not the end of the run before them.
func TestEndOfChecks(t *testing.T) {
	t.Parallel()
	world := checksWorld
	world.Traits.Name = "dated"
	place := fake.New(world)
	t.Cleanup(place.Destroy)
	h := servicetest.New(t, checksWorld, nil, endTimePlace{place})
	h.MustCreate("papi", "dated/Setup")
	for name, check := range map[string]string{"passed": "echo fine", "failed": "exit 1"} {
		task := h.WaitTask(startTaskWithChecks(h, "papi", "done", 0, check).ID)
		checks, err := h.TaskChecks(h.Context(), task.ID)
		require.NoError(t, err)
		require.False(t, task.EndedAt.Before(checks.Results[0].EndedAt.Truncate(time.Microsecond)), "%s: checks end at %s, the task at %s", name, checks.Results[0].EndedAt, task.EndedAt)
	}
}

// TestChecks checks when checks run, and how their results decide about the task.
func TestChecks(t *testing.T) {
	t.Parallel()
	t.Run("a task fails when its checks fail after all retries", func(t *testing.T) {
		t.Parallel()
		h := servicetest.NewWithPapi(t, checksWorld, nil)
		task := h.WaitTask(startTaskWithChecks(h, "papi", "done", 2, "echo no compiler; exit 3", "echo fine").ID)
		require.Equal(t, fleet.TaskFailed, task.Status)
		require.Equal(t, fleet.CodeChecksFailed, task.ReasonCode)
		require.Equal(t, 2, task.Try)
		require.Equal(t, "1 of 2 checks failed: echo no compiler; exit 3 (exit code 3)", task.Reason)
		require.Equal(t, []fleet.CheckStatus{fleet.CheckFailed, fleet.CheckPassed}, checkStatuses(h, task.ID))
		require.Equal(t, fleet.StatusIdle, h.WaitAgent("papi", func(v *fleet.AgentView) bool { return v.Task == nil }).Status())
	})
	t.Run("a run that failed is not checked", func(t *testing.T) {
		t.Parallel()
		h := servicetest.NewWithPapi(t, checksWorld, nil)
		task := h.WaitTask(startTaskWithChecks(h, "papi", "fail no idea", 1, "echo fine").ID)
		require.Equal(t, "no idea", task.Reason)
		require.Empty(t, task.ReasonCode)
		require.Empty(t, checkStatuses(h, task.ID))
	})
	t.Run("projects and roles have checks too", func(t *testing.T) {
		t.Parallel()
		world, noRetries := checksWorld, 0
		roles := fake.DefaultRoles()
		roles[0].Checks = fleet.Checks{Commands: []string{"echo role"}, Retries: &noRetries}
		world.Projects = []fake.Project{{Project: fleet.Project{Name: "Setup", Checks: fleet.Checks{Commands: []string{"echo project", "exit 1"}}}, Roles: roles}}
		h := servicetest.NewWithPapi(t, world, nil)
		task := h.WaitTask(h.Start("papi", "done").ID)
		require.Equal(t, "1 of 3 checks failed: exit 1 (exit code 1)", task.Reason)
		require.Zero(t, task.Try, "the role allows no retry")
		require.Len(t, checkStatuses(h, task.ID), 3)
	})
	t.Run("a task is stopped while it is checked", func(t *testing.T) {
		t.Parallel()
		h := servicetest.NewWithPapi(t, checksWorld, nil)
		task := startTaskWithChecks(h, "papi", "done well", 1, "wait gate", "echo never")
		<-h.FakePlace.Reached("gate")
		stopped, _, _, err := h.StopTask(h.Context(), "papi", "")
		require.NoError(t, err)
		require.Equal(t, fleet.TaskStopped, stopped.Status)
		require.Equal(t, "well", stopped.Summary)
		require.Equal(t, []fleet.CheckStatus{fleet.CheckStopped}, checkStatuses(h, task.ID))
	})
	t.Run("an agent is deleted while it is checked", func(t *testing.T) {
		t.Parallel()
		h := servicetest.NewWithPapi(t, checksWorld, nil)
		task := startTaskWithChecks(h, "papi", "change made a line\ndone well", 1, "wait gate")
		<-h.FakePlace.Reached("gate")
		h.MustDelete("papi")
		require.Equal(t, fleet.TaskStopped, h.WaitTask(task.ID).Status)
		require.Equal(t, "made", changedPath(h, task.ID))
	})
	t.Run("a check that cannot be run fails the task", func(t *testing.T) {
		t.Parallel()
		h := servicetest.NewWithPapi(t, checksWorld, nil)
		h.FakePlace.Fail(fake.Check, 1, fleet.Errorf(fleet.ReasonUnimplemented, "it has no shell"))
		task := h.WaitTask(startTaskWithChecks(h, "papi", "done", 1, "echo fine").ID)
		require.Equal(t, "1 of 1 checks failed: echo fine (it could not be run: it has no shell)", task.Reason)
		require.Zero(t, task.Try, "a retry by the agent could not help")
	})
	t.Run("a check is retried if the host does not answer", func(t *testing.T) {
		t.Parallel()
		h := servicetest.NewWithPapi(t, checksWorld, nil)
		h.FakePlace.Fail(fake.Check, 2, nil)
		require.Equal(t, fleet.TaskCompleted, h.WaitTask(startTaskWithChecks(h, "papi", "done", 1, "echo fine").ID).Status)
	})
	for name, meanwhile := range map[string]func(*servicetest.Harness){
		"a message during the checks is for the next try":                  func(*servicetest.Harness) {},
		"a message during the checks is for the next try, after a restart": (*servicetest.Harness).Restart,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := servicetest.NewWithPapi(t, checksWorld, func(c *state.Config) { c.MessageWait = 10 * time.Millisecond })
			task := startTaskWithChecks(h, "papi", "done", 1, "wait gate; has made fix: change made a line", "has made fix: listen")
			<-h.FakePlace.Reached("gate")
			reply, err := sendMessage(h, "be quick", "")
			require.NoError(t, err)
			require.Contains(t, reply, "is stored")
			meanwhile(h)
			h.FakePlace.Release("gate")
			require.Equal(t, fleet.TaskCompleted, h.WaitTask(task.ID).Status)
			require.Equal(t, []string{"be quick"}, h.FakePlace.Messages(task.ID+"-2"))
			require.Equal(t, []string{"be quick"}, h.TaskEvents(task.ID, fleet.EventTaskMessage))
			require.Equal(t, "be quick", strings.TrimSpace(h.Output(task.ID)))
		})
	}
	t.Run("questions of the run before the checks are withdrawn", func(t *testing.T) {
		t.Parallel()
		h := servicetest.NewWithPapi(t, checksWorld, nil)
		task := startTaskWithChecks(h, "papi", "done", 1, "wait gate; has made fix: change made a line", "has made fix: wait second")
		<-h.FakePlace.Reached("gate")
		require.NoError(t, h.Store.Update(t.Context(), func(tx fleet.Tx) error { // as if the run had ended without saying that it no longer asks
			current, err := tx.Task(task.ID)
			if err != nil {
				return err
			}
			current.OpenQuestions = 1
			if err := tx.Insert(&fleet.Question{
				ID: task.ID + "-q", TaskID: task.ID, AgentUID: task.AgentUID, AgentName: task.AgentName, Owner: task.Owner,
				Kind: fleet.AskText, Status: fleet.QuestionWaiting, Text: "tabs?", AskedAt: current.StartedAt,
			}); err != nil {
				return err
			}
			return tx.Update(current)
		}))
		h.FakePlace.Release("gate")
		<-h.FakePlace.Reached("second")
		require.NoError(t, h.Store.View(t.Context(), func(tx fleet.ReadTx) error {
			all, _, err := tx.Questions(fleet.QuestionFilter{TaskID: task.ID}, 9, 0)
			require.Len(t, all, 1)
			require.Equal(t, fleet.QuestionWithdrawn, all[0].Status)
			return err
		}))
		v, err := h.ShowAgent(h.Context(), "papi")
		require.NoError(t, err)
		require.Zero(t, v.Task.OpenQuestions)
		h.FakePlace.Release("second")
		require.Equal(t, fleet.TaskCompleted, h.WaitTask(task.ID).Status)
	})
	t.Run("an agent that cannot run checks refuses a task with checks", func(t *testing.T) {
		t.Parallel()
		h := servicetest.NewWithPapi(t, fake.Config{}, nil)
		_, err := h.StartTask(h.Context(), service.StartTaskRequest{Agent: "papi", Description: "done", Checks: fleet.Checks{Commands: []string{"echo"}}})
		require.Equal(t, fleet.ReasonUnimplemented, fleet.ReasonOf(err))
	})
	t.Run("invalid checks are refused", func(t *testing.T) {
		t.Parallel()
		h := servicetest.NewWithPapi(t, checksWorld, nil)
		tooFew, tooMany := -1, fleet.MaxCheckRetries+1
		for _, c := range []fleet.Checks{
			{Commands: make([]string, fleet.MaxChecks+1)},
			{Commands: []string{" "}},
			{Commands: []string{"a\x00b"}},
			{Commands: []string{strings.Repeat("x", fleet.MaxCheckCommand+1)}},
			{Timeout: -time.Second},
			{Timeout: fleet.MaxCheckTimeout + 1},
			{Retries: &tooFew},
			{Retries: &tooMany},
		} {
			_, err := h.StartTask(h.Context(), service.StartTaskRequest{Agent: "papi", Description: "done", Checks: c})
			require.Equal(t, fleet.ReasonInvalidArgument, fleet.ReasonOf(err), "%+v", c)
		}
	})
}

// TestChecksOfContract checks that a contract reports the results of its checks, which do not change its status.
func TestChecksOfContract(t *testing.T) {
	t.Parallel()
	world := checksWorld
	world.Projects = []fake.Project{{Project: fleet.Project{Name: "Setup", Checks: fleet.Checks{Commands: []string{"has made", "exit 3"}}}}}
	for name, tc := range map[string]struct {
		prompt string
		status fleet.TaskStatus
		want   []fleet.CheckStatus
	}{
		"fulfilled":             {"change made a line\ndone well", fleet.TaskCompleted, []fleet.CheckStatus{fleet.CheckPassed, fleet.CheckFailed}},
		"reported while it ran": {"change made a line\nwait gate", fleet.TaskCompleted, []fleet.CheckStatus{fleet.CheckPassed, fleet.CheckFailed}},
		"failed":                {"fail no idea", fleet.TaskFailed, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := servicetest.New(t, world, nil)
			r := servicetest.LaunchRequest(tc.prompt)
			r.Place, r.Project, r.Config = "fake", "Setup", &fleet.AgentConfig{Reports: true}
			v, err := h.Launch(h.Context(), r)
			require.NoError(t, err)
			if name == "reported while it ran" {
				<-h.FakePlace.Reached("gate")
				_, err := h.CompleteByUID(h.Context(), v.UID, "well", nil, 0)
				require.NoError(t, err)
			}
			require.Len(t, shownResults(h.WaitDeleted(v.UID)), len(tc.want))
			task := h.WaitTask(v.Task.ID)
			require.Equal(t, tc.status, task.Status, task.Reason)
			require.Zero(t, task.Try)
			require.Empty(t, task.ReasonCode)
			require.Equal(t, tc.want, checkStatuses(h, task.ID))
			require.Empty(t, h.FakePlace.Workspaces())
		})
	}
}
