package reconcile_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/service"
	"fleet/internal/service/servicetest"
	"fleet/internal/state"
)

// sendMessage sends a message to papi, and returns the text of the answer.
func sendMessage(h *servicetest.Harness, text, requestID string) (string, error) {
	h.T.Helper()
	_, reply, err := h.SendMessage(h.Context(), "papi", text, requestID)
	return reply, err
}

const (
	textSent   = "Message sent to the running task"
	textStored = "The message is stored: the agent gets it as soon as it can accept it, if its task is still running then"
)

// TestMessageRightAfterStart checks that a message that is sent during the dispatch of the task is delivered.
func TestMessageRightAfterStart(t *testing.T) {
	t.Parallel()
	h := servicetest.NewWithPapi(t, fake.Config{}, nil)
	gate := h.FakePlace.Hold(fake.Dispatch)
	task := h.Start("papi", "listen\ndone")
	<-gate.Arrived()
	sent := startCall(func() error { _, err := sendMessage(h, "more light", ""); return err })
	h.WaitAgent("papi", func(*fleet.AgentView) bool { return len(h.Events(fleet.EventTaskMessage)) == 1 })
	gate.Open()
	require.NoError(t, <-sent)
	require.Equal(t, fleet.TaskCompleted, h.WaitTask(task.ID).Status)
	require.Equal(t, "more light", h.Output(task.ID))
}

// TestMessageBeforeTheTaskBegins sends a message before the task is dispatched. It checks that the events about the
// message come after the event of the task's start.
func TestMessageBeforeTheTaskBegins(t *testing.T) {
	t.Parallel()
	h := servicetest.NewWithPapi(t, fake.Config{}, func(c *state.Config) { c.MessageWait = 10 * time.Millisecond })
	h.Reconciler.Stop()
	task := h.Start("papi", "listen\ndone")
	for range 2 {
		reply, err := sendMessage(h, "more light", "m1")
		require.NoError(t, err)
		require.Equal(t, textStored, reply)
	}
	h.Restart()
	require.Equal(t, fleet.TaskCompleted, h.WaitTask(task.ID).Status)
	var types []fleet.EventType
	require.NoError(t, h.Watch(h.Context(), service.WatchRequest{TaskID: task.ID}, func(events []fleet.Event, _ string) error {
		for _, e := range events {
			types = append(types, e.Type)
		}
		return nil
	}))
	require.Equal(t, []fleet.EventType{
		fleet.EventTaskCreated, fleet.EventTaskStarted, fleet.EventTaskMessage, fleet.EventTaskStep, fleet.EventTaskOutput, fleet.EventTaskEnded,
	}, types)
	require.Equal(t, []string{"more light"}, h.Events(fleet.EventTaskMessage))
}

// TestMessagesOutliveTheirProcess sends messages to an agent that does not accept them yet. It checks that they are
// stored, and that another process delivers them in order, each once.
func TestMessagesOutliveTheirProcess(t *testing.T) {
	t.Parallel()
	var accepts atomic.Bool // the agent accepts messages
	hung := make(chan struct{}, 10)
	h := servicetest.NewWithPapi(t, fake.Config{Before: func(ctx context.Context, c fake.Call) error {
		if c.Method == fake.Send && !accepts.Load() {
			hung <- struct{}{}
			return servicetest.Hang(ctx)
		}
		return nil
	}}, func(c *state.Config) { c.MessageWait, c.LeaseTTL = 10*time.Millisecond, time.Second })
	task := h.Start("papi", "listen\nlisten\nlisten\ndone")
	for _, text := range []string{"one", "two"} {
		reply, err := sendMessage(h, text, text)
		require.NoError(t, err)
		require.Equal(t, textStored, reply)
	}
	<-hung
	h.Restart()
	<-hung               // the restarted process follows the task, so the replica below does not
	other := h.Replica() // accepts the last message although it does not follow the task
	_, reply, err := other.SendMessage(h.Context(), "papi", "three", "")
	require.NoError(t, err)
	require.Equal(t, textStored, reply)
	accepts.Store(true)
	h.Reconciler.Stop() // the replica takes over
	require.Equal(t, fleet.TaskCompleted, h.WaitTask(task.ID).Status)
	require.Equal(t, []string{"one", "two", "three"}, h.FakePlace.Messages(task.ID))
	require.Len(t, h.Events(fleet.EventTaskMessage), 3)
	require.Len(t, h.Events(fleet.EventTaskStep), 3, "one step for each message that was delivered after its call had returned")
	for range 2 {
		reply, err = sendMessage(h, "one", "one")
		require.NoError(t, err)
		require.Equal(t, textSent, reply, "the message was delivered meanwhile")
	}
	require.Len(t, h.FakePlace.Messages(task.ID), 3)
}

// TestMessageWhoseAnswerGotLost restarts the process after the agent has accepted a message and before that is recorded.
// It checks that the agent does not get the message twice.
func TestMessageWhoseAnswerGotLost(t *testing.T) {
	t.Parallel()
	for name, prompt := range map[string]string{"while it works": "listen\nwait gate\ndone", "at its end": "listen\ndone"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := servicetest.NewWithPapi(t, fake.Config{}, func(c *state.Config) { c.MessageWait = 10 * time.Millisecond })
			gate := h.FakePlace.HoldAfter(fake.Send)
			task := h.Start("papi", prompt)
			reply, err := sendMessage(h, "hi", "m")
			require.NoError(t, err)
			require.Equal(t, textStored, reply)
			<-gate.Arrived()
			h.Restart()
			gate.Open()
			h.FakePlace.Release("gate")
			require.Equal(t, fleet.TaskCompleted, h.WaitTask(task.ID).Status)
			require.Equal(t, []string{"hi"}, h.FakePlace.Messages(task.ID))
			reply, err = sendMessage(h, "hi", "m")
			require.NoError(t, err, "the message was delivered")
			require.Equal(t, textSent, reply)
		})
	}
}

// TestMessageThatCannotBeDelivered checks that the sender of a message that cannot be delivered gets the reason.
func TestMessageThatCannotBeDelivered(t *testing.T) {
	t.Parallel()
	t.Run("the agent accepts no messages", func(t *testing.T) {
		t.Parallel()
		h := servicetest.NewWithPapi(t, fake.Config{NoMessages: true}, nil)
		h.Start("papi", "wait gate")
		for range 2 {
			_, err := sendMessage(h, "hi", "m")
			require.Equal(t, fleet.ReasonUnimplemented, fleet.ReasonOf(err))
			require.ErrorContains(t, err, "cannot take messages")
		}
		require.Equal(t, 1, h.FakePlace.Calls(fake.Send))
		require.Len(t, h.Events(fleet.EventTaskStep), 1)
	})
	t.Run("the task ends first", func(t *testing.T) {
		t.Parallel()
		h := servicetest.NewWithPapi(t, fake.Config{}, nil)
		h.FakePlace.Fail(fake.Send, 1<<30, nil)
		task := h.Start("papi", "wait gate\ndone")
		sent := startCall(func() error { _, err := sendMessage(h, "hi", ""); return err })
		<-h.FakePlace.Called(fake.Send, 1)
		h.FakePlace.Release("gate")
		require.Equal(t, fleet.TaskCompleted, h.WaitTask(task.ID).Status)
		err := <-sent
		require.Equal(t, fleet.ReasonNoRunningTask, fleet.ReasonOf(err))
		require.ErrorContains(t, err, "ended before")
		require.Empty(t, h.FakePlace.Messages(task.ID))
	})
	t.Run("the task is stopped", func(t *testing.T) {
		t.Parallel()
		h := servicetest.NewWithPapi(t, fake.Config{Before: func(ctx context.Context, c fake.Call) error {
			if c.Method == fake.Send {
				return servicetest.Hang(ctx)
			}
			return nil
		}}, nil)
		h.Start("papi", "wait gate")
		<-h.FakePlace.Reached("gate")
		h.Config.CallTimeout = 200 * time.Millisecond
		h.Restart()
		sent := startCall(func() error { _, err := sendMessage(h, "hi", ""); return err })
		<-h.FakePlace.Called(fake.Send, 1)
		stopped, _, _, err := h.StopTask(h.Context(), "papi", "")
		require.NoError(t, err)
		require.Equal(t, fleet.TaskStopped, stopped.Status)
		require.Equal(t, fleet.ReasonNoRunningTask, fleet.ReasonOf(<-sent))
	})
	t.Run("the agent is deleted", func(t *testing.T) {
		t.Parallel()
		h := servicetest.NewWithPapi(t, fake.Config{}, nil)
		h.FakePlace.Fail(fake.Send, 1<<30, nil)
		h.Start("papi", "wait gate")
		sent := startCall(func() error { _, err := sendMessage(h, "hi", ""); return err })
		<-h.FakePlace.Called(fake.Send, 1)
		h.MustDelete("papi")
		require.Equal(t, fleet.ReasonNoRunningTask, fleet.ReasonOf(<-sent))
	})
}

// TestMessageThatIsTriedAgain checks that a message is delivered once, after retries, if the host does not answer at
// first.
func TestMessageThatIsTriedAgain(t *testing.T) {
	t.Parallel()
	h := servicetest.NewWithPapi(t, fake.Config{}, nil)
	h.FakePlace.Fail(fake.Send, 2, nil)
	task := h.Start("papi", "listen\ndone")
	reply, err := sendMessage(h, "hi", "")
	require.NoError(t, err)
	require.Equal(t, textSent, reply)
	require.Equal(t, fleet.TaskCompleted, h.WaitTask(task.ID).Status)
	require.Equal(t, []string{"hi"}, h.FakePlace.Messages(task.ID))
}

// TestMessageAfterItsRequestIsForgotten repeats a message after its request id was pruned. It checks that the same task
// does not get the message again, and that another task can get a message with the same request id.
func TestMessageAfterItsRequestIsForgotten(t *testing.T) {
	t.Parallel()
	h := servicetest.NewWithPapi(t, fake.Config{}, nil)
	task := h.Start("papi", "wait gate\nlisten\ndone")
	<-h.FakePlace.Reached("gate")
	pruneHistory := func() {
		_, err := h.Store.Prune(t.Context(), fleet.PruneHistory, time.Now(), 500)
		require.NoError(t, err)
	}
	for range 2 {
		_, err := sendMessage(h, "more light", "m1")
		require.NoError(t, err)
		pruneHistory()
	}
	h.FakePlace.Release("gate")
	require.Equal(t, fleet.TaskCompleted, h.WaitTask(task.ID).Status)
	require.Equal(t, []string{"more light"}, h.FakePlace.Messages(task.ID))
	pruneHistory()
	task = h.Start("papi", "listen\ndone")
	_, err := sendMessage(h, "more light", "m1")
	require.NoError(t, err)
	require.Equal(t, fleet.TaskCompleted, h.WaitTask(task.ID).Status)
	require.Equal(t, []string{"more light"}, h.FakePlace.Messages(task.ID))
}
