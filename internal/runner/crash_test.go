package runner

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/runner/driver"
	"fleet/internal/runner/shim"
	"fleet/internal/waittest"
)

// The tests in this file interrupt a call where the program could be killed, and check what the next call does.

// TestCrashBeforeTheShim interrupts Dispatch before it starts the supervisor. The run must not exist until Dispatch is
// repeated, whatever is called before that.
func TestCrashBeforeTheShim(t *testing.T) {
	t.Parallel()
	x, ctx := newFixture(t)
	r := fleet.Run{TaskID: "task-1", Prompt: "echo once >>times", Timeout: waittest.Limit}

	for _, next := range []func() error{
		func() error { // the agent is idle, so it accepts another task
			return x.agent.Dispatch(ctx, fleet.Run{TaskID: "task-0", Prompt: "true", Timeout: waittest.Limit})
		},
		func() error { _, err := x.follow(ctx, r); return err },
		func() error { return x.agent.Interrupt(ctx, r, true) },
	} {
		env, err := x.prepare(r)
		require.NoError(t, err)
		if err := next(); err != nil {
			require.Equal(t, fleet.ReasonTaskNotFound, fleet.ReasonOf(err), "%v", err)
		}
		_, err = x.follow(ctx, r)
		require.Equal(t, fleet.ReasonTaskNotFound, fleet.ReasonOf(err), "the run must not exist, because it was never dispatched")

		// The run must not start before it is dispatched again, so a late supervisor must do nothing.
		if _, err := os.Stat(string(x.home.run(r.TaskID))); err == nil {
			pipe, err := x.host.spawn(x.home.run(r.TaskID), env)
			require.NoError(t, err)
			require.False(t, handshake(t, pipe).Started)
		}
	}
	require.NoError(t, x.agent.Dispatch(ctx, r))
	o, err := x.follow(ctx, r)
	require.NoError(t, err)
	require.Equal(t, fleet.TaskCompleted, o.Status)
	require.Equal(t, "once\n", x.times())
}

// handshake reads what the supervisor reports about its start. The result is zero if it reports nothing.
func handshake(t *testing.T, pipe *os.File) (h shim.Handshake) {
	t.Helper()
	_ = json.NewDecoder(pipe).Decode(&h)
	require.NoError(t, pipe.Close())
	return h
}

// TestDispatchDuringShimStart repeats the dispatch at different moments while the supervisor of the first attempt starts.
func TestDispatchDuringShimStart(t *testing.T) {
	t.Parallel()
	x, ctx := newFixture(t)
	byFirst := 0
	for i := range 24 {
		r := fleet.Run{TaskID: "task-" + string(rune('a'+i)), Prompt: "echo $FLEET_TASK_ID >>times", Timeout: waittest.Limit}
		env, err := x.prepare(r)
		require.NoError(t, err)
		firstPipe, err := x.host.spawn(x.home.run(r.TaskID), env)
		require.NoError(t, err)
		<-time.After(time.Duration(i) * time.Millisecond) // waits for no event, because the test must pass at any moment
		require.NoError(t, x.agent.Dispatch(ctx, r))
		o, err := x.follow(ctx, r)
		require.NoError(t, err)
		require.Equal(t, fleet.TaskCompleted, o.Status, "%+v", o)
		if handshake(t, firstPipe).Started {
			byFirst++
		}
	}
	require.Len(t, strings.Fields(x.times()), 24, "each run must execute once; %d by the first shim", byFirst)
}

// TestSeveralShims starts several supervisors for one run. Only one may run it.
func TestSeveralShims(t *testing.T) {
	t.Parallel()
	x, ctx := newFixture(t)
	r := fleet.Run{TaskID: "task-1", Prompt: "echo once >>times", Timeout: waittest.Limit}
	env, err := x.prepare(r)
	require.NoError(t, err)
	var all []*os.File
	for range 5 {
		pipe, err := x.host.spawn(x.home.run(r.TaskID), env)
		require.NoError(t, err)
		all = append(all, pipe)
	}
	started, alreadyClaimed := 0, 0
	for _, pipe := range all {
		switch s := handshake(t, pipe); {
		case s.Started:
			started++
		case s.AlreadyClaimed:
			alreadyClaimed++
		}
	}
	require.Equal(t, 1, started)
	require.Equal(t, 4, alreadyClaimed)
	_, err = x.follow(ctx, r)
	require.NoError(t, err)
	require.Equal(t, "once\n", x.times())
}

// TestCrashDuringQuestion kills the supervisor of a run with an open question, and a supervisor that has just delivered
// an answer.
func TestCrashDuringQuestion(t *testing.T) {
	t.Parallel()
	x, ctx := newFixture(t)
	x.permissions = &driver.Permissions{Timeout: waittest.Limit}
	kill := func(r fleet.Run) {
		claim, err := x.home.run(r.TaskID).Claim()
		require.NoError(t, err)
		require.NoError(t, claim.Shim.Signal(syscall.SIGKILL))
	}
	answer := func(r fleet.Run, id string) fleet.Question {
		return fleet.Question{ID: r.TaskID + "-" + id, TaskID: r.TaskID, Answer: "yes", AnsweredBy: "alice"}
	}
	for i, answered := range []bool{false, true} {
		r := fleet.Run{TaskID: fmt.Sprint("task-", i), Prompt: `"$FLEET_ASK" question one; "$FLEET_ASK" question two`, Timeout: waittest.Limit}
		require.NoError(t, x.agent.Dispatch(ctx, r))
		statuses := map[string]fleet.QuestionStatus{}
		o, err := x.agent.Follow(ctx, r, "", func(out fleet.Output) error {
			if out.Question == nil {
				return nil
			}
			statuses[out.Question.ID] = out.Question.Status
			switch {
			case out.Question.Status != fleet.QuestionWaiting:
			case answered && out.Question.ID == "1":
				return x.agent.Answer(ctx, r, answer(r, "1"))
			default:
				kill(r)
			}
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, fleet.TaskFailed, o.Status)
		if !answered {
			require.Equal(t, map[string]fleet.QuestionStatus{"1": fleet.QuestionWaiting}, statuses)
			require.Equal(t, fleet.ReasonNoRunningTask, fleet.ReasonOf(x.agent.Answer(ctx, r, answer(r, "1"))))
			continue
		}
		require.Equal(t, map[string]fleet.QuestionStatus{"1": fleet.QuestionAnswered, "2": fleet.QuestionWaiting}, statuses)
		require.NoError(t, x.agent.Answer(ctx, r, answer(r, "1")), "a repeated answer must succeed")
		require.Equal(t, fleet.ReasonNoRunningTask, fleet.ReasonOf(x.agent.Answer(ctx, r, answer(r, "2"))))
	}
}
