package sessions_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/place/placetest/model"
	"fleet/internal/service"
	"fleet/internal/toolset/sessions"
	"fleet/internal/waittest"
)

func TestConversation(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	for _, agent := range []string{"echo.yaml", "./echo.yaml", "echo"} {
		id := h.openSession("alice", agent)
		a := h.say("alice", id, "My name is Ann.")
		require.Equal(t, "You said: My name is Ann.", a.Text)
		require.Equal(t, []int64{model.InputTokens, model.OutputTokens}, []int64{a.Usage.InputTokens, a.Usage.OutputTokens})
		require.Equal(t, "stub-large", a.Usage.Model)
		require.Zero(t, a.Usage.ToolCalls)
		h.say("alice", id, "What is my name?")
		requests := h.model.Requests()
		require.Equal(t, "user: My name is Ann.\nassistant: You said: My name is Ann.\nuser: What is my name?", requests[len(requests)-1].Transcript())

		info, err := h.svc.Info(h.as("alice"), id)
		require.NoError(t, err)
		require.Equal(t, []any{agent, "files", 4, false}, []any{info.Agent, info.Source, info.Count, info.Working})
		history, err := h.svc.History(h.as("alice"), id, &info.Count)
		require.NoError(t, err)
		require.Len(t, history, info.Count)
		require.NoError(t, h.svc.Close(h.as("alice"), id))
		require.NoError(t, h.svc.Close(h.as("alice"), id))
		_, err = h.svc.Send(h.as("alice"), id, "Still there?", "", nil)
		requireReason(t, err, fleet.ReasonSessionNotFound, "closed by alice")
	}
	h.WaitStored(func() bool { return h.countAgents() == 0 })
}

// TestContents checks that Send reports the actions of an agent while they happen, and again in the answer.
func TestContents(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	id := h.openSession("alice", "echo")
	var live []sessions.Content
	a, err := h.svc.Send(h.as("alice"), id, "model: tools [{\"name\":\"think\",\"input\":{\"thought\":\"hm\"}}]\nmodel: say \"one\\ntwo\"", "", func(c sessions.Content) error {
		live = append(live, c)
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, live, a.Contents)
	require.Equal(t, "one\ntwo", a.Text)
	require.Equal(t, 1, a.Usage.ToolCalls)
	require.EqualValues(t, 2*(model.InputTokens+model.OutputTokens), a.Usage.InputTokens+a.Usage.OutputTokens)
	var actions []string
	lastIsText := false // the last element of actions is text of the agent; a line that the model writes slowly comes in pieces
	usageCount := 0     // counted separately, because the position of usage among the contents depends on timing
	for _, c := range live {
		switch {
		case c.Usage != nil:
			usageCount++
		case c.Result != nil:
			actions, lastIsText = append(actions, c.Tool+" "+c.Status), false
			require.Contains(t, c.Result.Text, "hm")
		case c.Tool != "":
			actions, lastIsText = append(actions, c.Tool+" "+c.Status), false
			require.JSONEq(t, `{"thought":"hm"}`, string(c.Arguments))
		case lastIsText:
			actions[len(actions)-1] += c.Message
		default:
			actions, lastIsText = append(actions, c.Message), true
		}
	}
	require.Equal(t, []string{"think started", "think completed", "one\ntwo\n"}, actions)
	require.Equal(t, 2, usageCount)
}

// TestSpeakers checks that each Content names the agent that produced it: one of a team, or an agent of the fleet.
func TestSpeakers(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	h.define("team.yaml", strings.Replace(h.document("Leads."), "    toolsets:", "    sub_agents: [helper]\n    toolsets:", 1)+"  helper: {model: stub, description: Helps., instruction: You help.}\n")
	id := h.openSession("alice", "team")
	a := h.say("alice", id, `model: tools [{"name":"transfer_task","input":{"agent":"helper","task":"model: say helped","expected_output":"help"}}]`+"\nmodel: say led")
	require.Equal(t, "led", a.Text)
	messages := map[string]string{}
	for _, c := range a.Contents {
		if c.Message != "" {
			messages[c.Agent] += c.Message
		}
		require.NotEmpty(t, c.Agent, "%+v", c)
	}
	require.Equal(t, map[string]string{"helper": "You said: Please proceed.\n", "root": "led\n"}, messages)

	answer := h.say("alice", h.openSession("alice", h.Create("papi").Name), "echo hello\ndone all said")
	require.Equal(t, []string{"papi", "hello"}, []string{answer.Contents[0].Agent, strings.TrimSpace(answer.Contents[0].Message)})
}

// TestRestart checks that a session and its turn continue after a restart of the server.
func TestRestart(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	id := h.openSession("alice", "echo")
	h.say("alice", id, "first")
	ctx, cancel := context.WithCancelCause(h.as("alice"))
	sent := h.sendInBackground(ctx, id, "second\nmodel: hang restart", "")
	<-h.model.Gate("restart").Arrived()
	cancel(fleet.ErrShutdown) // the server cancels its calls in this way at shutdown
	require.ErrorIs(t, <-sent, context.Canceled)
	h.restart()
	h.model.Gate("restart").Open()
	h.WaitStored(func() bool {
		info, err := h.svc.Info(h.as("alice"), id)
		require.NoError(t, err)
		return !info.Working
	})
	a := h.say("alice", id, "third")
	require.Equal(t, "You said: third", a.Text)
	require.Len(t, h.model.RequestsWith("second"), 1)
	last := h.model.Requests()[len(h.model.Requests())-1]
	require.Contains(t, last.Transcript(), "user: first\nassistant: You said: first\nuser: second")

	history, err := h.svc.History(h.as("alice"), id, nil)
	require.NoError(t, err)
	var lines []string
	for _, m := range history {
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s %s %s", m.Role, strings.Split(m.Text, "\n")[0], m.Status)))
	}
	require.Equal(t, []string{
		"user first", "assistant You said: first completed", "user second", "assistant Went on completed", "user third", "assistant You said: third completed",
	}, lines)
	two := 2
	history, err = h.svc.History(h.as("alice"), id, &two)
	require.NoError(t, err)
	require.Equal(t, []string{"third", "You said: third"}, []string{history[0].Text, history[1].Text})
}

// TestQueue checks that messages are answered in the order of their arrival, and that only MaxWaiting of them may wait.
func TestQueue(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(h *harness) { h.cfg.MaxWaiting = 3 })
	id := h.openSession("alice", "echo")
	answers := make(chan string, 4)
	send := func(message string) {
		a, err := h.svc.Send(h.as("alice"), id, message, "", nil)
		if err != nil {
			answers <- err.Error()
			return
		}
		answers <- a.Text
	}
	go send("model: hang queue")
	<-h.model.Gate("queue").Arrived()
	var sends sync.WaitGroup
	for i := range 3 {
		sends.Go(func() { send(fmt.Sprintf("number %d", i)) })
		h.waitForMessages(id, i+1)
	}
	_, err := h.svc.Send(h.as("alice"), id, "one too many", "", nil)
	e := requireReason(t, err, fleet.ReasonLimitReached, "3 messages already wait")
	require.Equal(t, fleet.ResourceExhausted, e.Code)
	info, err := h.svc.Info(h.as("alice"), id)
	require.NoError(t, err)
	require.True(t, info.Working)
	h.model.Gate("queue").Open()
	require.Equal(t, "Went on", <-answers)
	for i := range 3 {
		require.Equal(t, fmt.Sprintf("You said: number %d", i), <-answers)
	}
	sends.Wait()
	require.Empty(t, h.model.RequestsWith("one too many"))
}

// TestCloseEndsCalls checks that closing a session ends its turn and the waiting calls, and that the model gets no further
// request.
func TestCloseEndsCalls(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	id := h.openSession("alice", "echo")
	errs := make(chan error, 2)
	send := func(message string) {
		_, err := h.svc.Send(h.as("alice"), id, message, "", nil)
		errs <- err
	}
	go send("model: hang close\nmodel: tool think {\"thought\":\"more\"}\nmodel: say never")
	<-h.model.Gate("close").Arrived()
	go send("waiting")
	h.waitForMessages(id, 1)
	require.NoError(t, h.svc.Close(h.as("alice"), id))
	for range 2 {
		err := <-errs
		require.Contains(t, []fleet.Reason{fleet.ReasonTaskFailed, fleet.ReasonSessionNotFound}, fleet.ReasonOf(err), "%v", err)
	}
	<-h.model.Gate("close").Left()
	h.WaitStored(func() bool { return h.countAgents() == 0 })
	require.Len(t, h.model.Requests(), 1)
	info, err := h.svc.Info(h.as("alice"), id)
	require.NoError(t, err)
	require.Equal(t, "closed by alice", info.CloseReason)
	open, err := h.svc.List(h.as("alice"))
	require.NoError(t, err)
	require.Empty(t, open)
	history, err := h.svc.History(h.as("alice"), id, nil)
	require.NoError(t, err)
	require.Equal(t, fleet.TaskStopped, history[1].Status)
}

// TestIdleSessions checks the three occasions on which an idle session is closed: to make room for another one, when it
// gets a message, and by the sweep.
func TestIdleSessions(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(h *harness) { h.cfg.MaxSessions, h.cfg.IdleTimeout = 2, time.Hour })
	one, two := h.openSession("alice", "echo"), h.openSession("alice", "echo")
	h.advance(59 * time.Minute)
	h.say("alice", two, "still here")
	h.advance(2 * time.Minute)
	three := h.openSession("alice", "echo")
	info, err := h.svc.Info(h.as("alice"), one)
	require.NoError(t, err)
	require.Equal(t, "it was not used for 1h0m0s", info.CloseReason)
	require.Contains(t, h.Events(fleet.EventAgentChanged), "session "+one+" was closed: it was not used for 1h0m0s")
	h.advance(2 * time.Hour)
	_, err = h.svc.Send(h.as("alice"), two, "too late", "", nil)
	e := requireReason(t, err, fleet.ReasonSessionNotFound, "not used for 1h0m0s")
	require.Equal(t, "it was not used for 1h0m0s", e.Metadata["close_reason"])
	require.NoError(t, h.svc.Sweep(t.Context()))
	_, err = h.svc.Send(h.as("alice"), three, "too late", "", nil)
	requireReason(t, err, fleet.ReasonSessionNotFound)
	h.WaitStored(func() bool { return h.countAgents() == 0 })
}

// TestEvict checks that the least recently used session is closed to make room for another one.
func TestEvict(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(h *harness) { h.cfg.MaxSessions, h.cfg.Evict = 2, true })
	one := h.openSession("alice", "echo")
	h.advance(time.Minute)
	two := h.openSession("alice", "echo")
	h.advance(time.Minute)
	h.say("alice", one, "used last")
	h.openSession("alice", "echo")
	info, err := h.svc.Info(h.as("alice"), two)
	require.NoError(t, err)
	require.Contains(t, info.CloseReason, "make room")
	require.Contains(t, h.Events(fleet.EventAgentChanged), "session "+two+" was closed: "+info.CloseReason)
	h.say("alice", one, "still here")
}

// TestRequestID checks that a request with an id is executed once.
func TestRequestID(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	for _, agent := range []string{"echo", h.Create("papi").Name} {
		first, err := h.svc.Create(h.as("alice"), agent, "a name", "create "+agent, sessions.Location{})
		require.NoError(t, err)
		again, err := h.svc.Create(h.as("alice"), agent, "a name", "create "+agent, sessions.Location{})
		require.NoError(t, err)
		require.Equal(t, first.ID, again.ID)
		_, err = h.svc.Create(h.as("alice"), agent, "another name", "create "+agent, sessions.Location{})
		requireReason(t, err, fleet.ReasonInvalidArgument, "used before")
	}
	open, err := h.svc.List(h.as("alice"))
	require.NoError(t, err)
	require.Len(t, open, 2)

	id := h.openSession("alice", "echo")
	for range 2 {
		a, err := h.svc.Send(h.as("alice"), id, "only once", "m1", nil)
		require.NoError(t, err)
		require.Equal(t, "You said: only once", a.Text)
		require.NotEmpty(t, a.Contents)
	}
	for range 2 {
		a, err := h.svc.Invoke(h.as("alice"), "echo", "once again", "i1", sessions.Location{}, nil)
		require.NoError(t, err)
		require.Equal(t, "You said: once again", a.Text)
	}
	require.Len(t, h.model.Requests(), 2)
	require.NoError(t, h.svc.Close(h.as("alice"), id))
	a, err := h.svc.Send(h.as("alice"), id, "only once", "m1", nil)
	require.NoError(t, err, "a repeated message must get its answer even in a closed session")
	require.Equal(t, "You said: only once", a.Text)
	_, err = h.svc.Send(h.as("alice"), id, "only twice", "m2", nil)
	requireReason(t, err, fleet.ReasonSessionNotFound)
}

// TestFleetAgent uses a session with an agent of the fleet. The turns of the session are tasks of that agent, closing the
// session keeps the agent, and other principals cannot use it.
func TestFleetAgent(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	h.Create("papi")
	id := h.openSession("alice", "papi")
	a := h.say("alice", id, "echo hello\ndone all said")
	require.Equal(t, "all said", a.Text)
	task, err := h.StartTask(h.as("alice"), service.StartTaskRequest{Agent: "papi", Description: "echo busy\nlisten"})
	require.NoError(t, err)
	answered := make(chan string, 1)
	go func() { // Send waits until the agent is free
		a, err := h.svc.Send(h.as("alice"), id, "done after that", "", nil)
		if err != nil {
			answered <- err.Error()
			return
		}
		answered <- a.Text
	}()
	_, _, err = h.SendMessage(h.as("alice"), "papi", "go on", "")
	require.NoError(t, err)
	require.Equal(t, "after that", <-answered)
	history, err := h.svc.History(h.as("alice"), id, nil)
	require.NoError(t, err)
	require.Len(t, history, 4, "the history must not contain the task that is not part of the session")
	for _, m := range history {
		require.NotEqual(t, task.ID, m.TaskID)
	}

	go func() { _, _ = h.svc.Send(h.as("alice"), id, "echo at it\nlisten", "", nil) }()
	h.WaitStored(func() bool {
		i, err := h.svc.Info(h.as("alice"), id)
		require.NoError(t, err)
		return i.Working
	})
	require.NoError(t, h.svc.Close(h.as("alice"), id))
	h.WaitStored(func() bool {
		v, err := h.ShowAgent(h.as("alice"), "papi")
		require.NoError(t, err)
		return v.Task == nil
	})
	_, err = h.svc.Create(h.as("bob"), "papi", "", "", sessions.Location{})
	requireReason(t, err, fleet.ReasonAgentNotFound)
	_, err = h.svc.Invoke(h.as("bob"), "papi", "echo hi", "", sessions.Location{}, nil)
	requireReason(t, err, fleet.ReasonAgentNotFound)
}

// TestTimeout checks that a turn fails at its timeout if the model never stops answering.
func TestTimeout(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(h *harness) { h.cfg.TurnTimeout = 2 * time.Second })
	id := h.openSession("alice", "echo")
	_, err := h.svc.Send(h.as("alice"), id, "model: forever \"on and on\\n\"", "", nil)
	requireReason(t, err, fleet.ReasonTaskTimedOut, "2s")
	_, err = h.svc.Invoke(h.as("alice"), "echo", "model: forever more", "", sessions.Location{}, nil)
	requireReason(t, err, fleet.ReasonTaskTimedOut)
	h.cfg.TurnTimeout = waittest.Limit
	h.svc = sessions.New(h.Service, h.catalog, h.cfg)
	require.Equal(t, "You said: hi", h.say("alice", id, "hi").Text)
}

// TestCallerDisconnects checks that a turn ends when its caller disconnects, and that the session continues. A message with
// a request id may be sent again after a lost connection, so its turn continues for a grace period.
func TestCallerDisconnects(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	id := h.openSession("alice", "echo")
	done := make(chan error, 2)
	// disconnect runs do, and cancels its context after the model has received the request.
	disconnect := func(gate string, do func(ctx context.Context, message string) error) {
		t.Helper()
		ctx, cancel := context.WithCancel(h.as("alice"))
		defer cancel()
		go func() { done <- do(ctx, "model: hang "+gate+"\nmodel: say more") }()
		<-h.model.Gate(gate).Arrived()
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
	}
	disconnect("gone", func(ctx context.Context, message string) error {
		_, err := h.svc.Send(ctx, id, message, "", nil)
		return err
	})
	require.Equal(t, "You said: next", h.say("alice", id, "next").Text)
	<-h.model.Gate("gone").Left()
	history, err := h.svc.History(h.as("alice"), id, nil)
	require.NoError(t, err)
	require.Equal(t, []any{fleet.TaskStopped, "stopped by alice"}, []any{history[1].Status, history[1].Problem})

	disconnect("alone", func(ctx context.Context, message string) error {
		_, err := h.svc.Invoke(ctx, "echo", message, "i1", sessions.Location{}, nil)
		return err
	})
	<-h.model.Gate("alone").Left()

	send := func(ctx context.Context, message string) error {
		_, err := h.svc.Send(ctx, id, message, "r1", nil)
		return err
	}
	disconnect("back", send)
	answered := make(chan error, 1)
	go func() { answered <- send(h.as("alice"), "model: hang back\nmodel: say more") }()
	h.model.Gate("back").Open()
	require.NoError(t, <-answered)
}

// TestAbandoned checks that the turn of a disconnected caller ends after the grace period if nobody retries.
func TestAbandoned(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(h *harness) { h.cfg.AbortGrace = 50 * time.Millisecond })
	id := h.openSession("alice", "echo")
	ctx, cancel := context.WithCancel(h.as("alice"))
	done := h.sendInBackground(ctx, id, "model: hang left", "r1")
	<-h.model.Gate("left").Arrived()
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
	<-h.model.Gate("left").Left()
	_, err := h.svc.Send(h.as("alice"), id, "model: hang left", "r1", nil)
	requireReason(t, err, fleet.ReasonTaskFailed, "stopped by alice")
}

// TestRetryAtAnotherServer checks that the turn of a disconnected caller continues if the caller sends the message again at
// another server on the store.
func TestRetryAtAnotherServer(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(h *harness) { h.cfg.AbortGrace = 50 * time.Millisecond })
	otherService := sessions.New(h.Service, h.catalog, h.cfg)
	id := h.openSession("alice", "echo")
	send := func(ctx context.Context, svc *sessions.Service, done chan<- error) {
		_, err := svc.Send(ctx, id, "model: hang moved\nmodel: say more", "r1", nil)
		done <- err
	}
	ctx, cancel := context.WithCancel(h.as("alice"))
	first, second := make(chan error, 1), make(chan error, 1)
	go send(ctx, h.svc, first)
	<-h.model.Gate("moved").Arrived()
	go send(h.as("alice"), otherService, second)
	waittest.Until(t, "a call that begins to wait gives no signal", func() bool {
		waiting, err := h.Store.Leases(t.Context(), "wait/")
		require.NoError(t, err)
		return len(waiting) == 2
	})
	cancel()
	require.ErrorIs(t, <-first, context.Canceled)
	waittest.Until(t, "the end of the grace period gives no signal", func() bool { return h.svc.Abandoned() == 0 })
	h.svc.Stop() // waits for the interruption of the turn, if there is one
	h.model.Gate("moved").Open()
	require.NoError(t, <-second)
	waiting, err := h.Store.Leases(t.Context(), "wait/")
	require.NoError(t, err)
	require.Empty(t, waiting)
}

// TestInterrupt checks that Interrupt ends the turn, that a waiting call gets the next turn, and that the model gets no
// further request for the interrupted turn.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	id := h.openSession("alice", "echo")
	first, second := make(chan error, 1), make(chan string, 1)
	go func() {
		_, err := h.svc.Send(h.as("alice"), id, "model: hang stop\nmodel: say never", "", nil)
		first <- err
	}()
	<-h.model.Gate("stop").Arrived()
	go func() { second <- h.say("alice", id, "me too").Text }()
	h.waitForMessages(id, 1)
	task, err := h.svc.Interrupt(h.as("alice"), id)
	require.NoError(t, err)
	require.Equal(t, fleet.TaskStopped, task.Status)
	requireReason(t, <-first, fleet.ReasonTaskFailed, "stopped by alice")
	require.Equal(t, "You said: me too", <-second)
	require.Len(t, h.model.RequestsWith("model: say never"), 1)
}

// TestInterruptOnlyTheSession checks that Interrupt does not stop another task of an agent of the fleet.
func TestInterruptOnlyTheSession(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	id := h.openSession("alice", h.Create("papi").Name)
	otherTask, err := h.StartTask(h.as("alice"), service.StartTaskRequest{Agent: "papi", Description: "echo busy\nlisten"})
	require.NoError(t, err)
	stopped, err := h.svc.Interrupt(h.as("alice"), id)
	require.NoError(t, err)
	require.Nil(t, stopped)
	task, err := h.ShowTask(h.as("alice"), otherTask.ID, nil)
	require.NoError(t, err)
	require.True(t, task.Active(), "a task outside the session must not be stopped")
}

// TestDefaultTurnTimeout checks that the default timeout of a turn is ten minutes, not a task's default of a day.
func TestDefaultTurnTimeout(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	id := h.openSession("alice", "echo")
	a := h.say("alice", id, "hi")
	require.NoError(t, h.Store.View(t.Context(), func(tx fleet.ReadTx) error {
		task, err := tx.Task(a.TaskID)
		require.Equal(t, 10*time.Minute, task.Timeout)
		return err
	}))
}

// TestWithoutDriver checks a server that cannot run agents from definitions. Sessions with agents of the fleet still work.
func TestWithoutDriver(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(h *harness) { h.cfg.Driver = "absent" })
	_, err := h.svc.Create(h.as("alice"), "echo", "", "", sessions.Location{})
	e := requireReason(t, err, fleet.ReasonBackendUnavailable, "absent")
	require.Equal(t, fleet.Unavailable, e.Code)
	_, err = h.svc.Invoke(h.as("alice"), "echo", "hi", "", sessions.Location{}, nil)
	requireReason(t, err, fleet.ReasonBackendUnavailable)
	h.Create("papi")
	require.Equal(t, "still here", h.say("alice", h.openSession("alice", "papi"), "done still here").Text)
}

// TestAdminClosesASession checks that closing an admin's session stops its turn, even if the agent belongs to another
// principal.
func TestAdminClosesASession(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	h.Create("papi")
	root := fleet.WithPrincipal(t.Context(), fleet.Principal{Name: "root", Kind: fleet.KindHuman, Scope: fleet.ScopeAdmin})
	x, err := h.svc.Create(root, "papi", "", "", sessions.Location{})
	require.NoError(t, err)
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_, _ = h.svc.Send(root, x.ID, "echo at it\nlisten", "", nil)
	}()
	h.WaitStored(func() bool {
		i, err := h.svc.Info(root, x.ID)
		require.NoError(t, err)
		return i.Working
	})
	require.NoError(t, h.svc.Close(root, x.ID))
	<-sent
	h.WaitStored(func() bool {
		v, err := h.ShowAgent(h.as("alice"), "papi")
		require.NoError(t, err)
		return v.Task == nil
	})
}

// TestArtifactWithoutPlace checks that the name of an artifact is not looked for at places, which may not answer.
func TestArtifactWithoutPlace(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(h *harness) {
		h.fleetPlace = fake.Config{Traits: fleet.Traits{Adopts: true}, Before: func(_ context.Context, c fake.Call) error {
			if c.Method == fake.List {
				return fleet.Errorf(fleet.ReasonBackendUnavailable, "the place does not answer")
			}
			return nil
		}}
	})
	for name, want := range map[string]fleet.Reason{"docker/reviewer:latest": fleet.ReasonAgentNotFound, "papi": fleet.ReasonBackendUnavailable} {
		_, err := h.svc.Create(h.as("alice"), name, "", "", sessions.Location{})
		requireReason(t, err, want)
	}
}
