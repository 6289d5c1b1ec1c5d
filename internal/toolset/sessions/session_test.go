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
	"fleet/internal/place/placetest/model"
	"fleet/internal/service"
	"fleet/internal/toolset/sessions"
	"fleet/internal/waittest"
)

func TestConversation(t *testing.T) {
	t.Parallel()
	w := newHarness(t, nil)
	for _, agent := range []string{"echo.yaml", "./echo.yaml", "echo"} {
		id := w.openSession("alice", agent)
		a := w.say("alice", id, "My name is Ann.")
		require.Equal(t, "You said: My name is Ann.", a.Text)
		require.Equal(t, []int64{model.InputTokens, model.OutputTokens}, []int64{a.Usage.InputTokens, a.Usage.OutputTokens})
		require.Equal(t, "stub-large", a.Usage.Model)
		require.Zero(t, a.Usage.ToolCalls)
		w.say("alice", id, "What is my name?")
		asked := w.model.Requests()
		require.Equal(t, "user: My name is Ann.\nassistant: You said: My name is Ann.\nuser: What is my name?", asked[len(asked)-1].Transcript())

		info, err := w.svc.Info(w.as("alice"), id)
		require.NoError(t, err)
		require.Equal(t, []any{agent, "files", 4, false}, []any{info.Agent, info.Source, info.Count, info.Working})
		history, err := w.svc.History(w.as("alice"), id, &info.Count)
		require.NoError(t, err)
		require.Len(t, history, info.Count)
		require.NoError(t, w.svc.Close(w.as("alice"), id))
		require.NoError(t, w.svc.Close(w.as("alice"), id))
		_, err = w.svc.Send(w.as("alice"), id, "Still there?", "", nil)
		requireReason(t, err, fleet.ReasonSessionNotFound, "closed by alice")
	}
	w.until(func() bool { return w.countAgents() == 0 })
}

// TestContents checks that Send reports the actions of an agent while they happen, and again in the answer.
func TestContents(t *testing.T) {
	t.Parallel()
	w := newHarness(t, nil)
	id := w.openSession("alice", "echo")
	var live []sessions.Content
	a, err := w.svc.Send(w.as("alice"), id, "model: tools [{\"name\":\"think\",\"input\":{\"thought\":\"hm\"}}]\nmodel: say \"one\\ntwo\"", "", func(c sessions.Content) error {
		live = append(live, c)
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, live, a.Contents)
	require.Equal(t, "one\ntwo", a.Text)
	require.Equal(t, 1, a.Usage.ToolCalls)
	require.EqualValues(t, 2*(model.InputTokens+model.OutputTokens), a.Usage.InputTokens+a.Usage.OutputTokens)
	var seen []string
	said := false // the last element of seen is text of the agent; a line that the model writes slowly comes in pieces
	used := 0     // counted separately, because the position of usage among the contents depends on timing
	for _, c := range live {
		switch {
		case c.Usage != nil:
			used++
		case c.Result != nil:
			seen, said = append(seen, c.Tool+" "+c.Status), false
			require.Contains(t, c.Result.Text, "hm")
		case c.Tool != "":
			seen, said = append(seen, c.Tool+" "+c.Status), false
			require.JSONEq(t, `{"thought":"hm"}`, string(c.Arguments))
		case said:
			seen[len(seen)-1] += c.Message
		default:
			seen, said = append(seen, c.Message), true
		}
	}
	require.Equal(t, []string{"think started", "think completed", "one\ntwo\n"}, seen)
	require.Equal(t, 2, used)
}

// TestSpeakers checks that each Content names the agent that produced it: one of a team, or an agent of the fleet.
func TestSpeakers(t *testing.T) {
	t.Parallel()
	w := newHarness(t, nil)
	w.define("team.yaml", strings.Replace(w.document("Leads."), "    toolsets:", "    sub_agents: [helper]\n    toolsets:", 1)+"  helper: {model: stub, description: Helps., instruction: You help.}\n")
	id := w.openSession("alice", "team")
	a := w.say("alice", id, `model: tools [{"name":"transfer_task","input":{"agent":"helper","task":"model: say helped","expected_output":"help"}}]`+"\nmodel: say led")
	require.Equal(t, "led", a.Text)
	said := map[string]string{}
	for _, c := range a.Contents {
		if c.Message != "" {
			said[c.Agent] += c.Message
		}
		require.NotEmpty(t, c.Agent, "%+v", c)
	}
	require.Equal(t, map[string]string{"helper": "You said: Please proceed.\n", "root": "led\n"}, said)

	papi := w.say("alice", w.openSession("alice", w.createAgent("alice", "papi")), "echo hello\ndone all said")
	require.Equal(t, []string{"papi", "hello"}, []string{papi.Contents[0].Agent, strings.TrimSpace(papi.Contents[0].Message)})
}

// TestRestart checks that a session and its turn continue after a restart of the server.
func TestRestart(t *testing.T) {
	t.Parallel()
	w := newHarness(t, nil)
	id := w.openSession("alice", "echo")
	w.say("alice", id, "first")
	ctx, cancel := context.WithCancelCause(w.as("alice"))
	sent := w.sendInBackground(ctx, id, "second\nmodel: hang restart", "")
	<-w.model.Gate("restart").Arrived()
	cancel(fleet.ErrShutdown) // the server cancels its calls in this way at shutdown
	require.ErrorIs(t, <-sent, context.Canceled)
	w.restart()
	w.model.Gate("restart").Open()
	w.until(func() bool {
		info, err := w.svc.Info(w.as("alice"), id)
		require.NoError(t, err)
		return !info.Working
	})
	a := w.say("alice", id, "third")
	require.Equal(t, "You said: third", a.Text)
	require.Len(t, w.model.RequestsWith("second"), 1)
	last := w.model.Requests()[len(w.model.Requests())-1]
	require.Contains(t, last.Transcript(), "user: first\nassistant: You said: first\nuser: second")

	history, err := w.svc.History(w.as("alice"), id, nil)
	require.NoError(t, err)
	var lines []string
	for _, m := range history {
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s %s %s", m.Role, strings.Split(m.Text, "\n")[0], m.Status)))
	}
	require.Equal(t, []string{
		"user first", "assistant You said: first completed", "user second", "assistant Went on completed", "user third", "assistant You said: third completed",
	}, lines)
	two := 2
	history, err = w.svc.History(w.as("alice"), id, &two)
	require.NoError(t, err)
	require.Equal(t, []string{"third", "You said: third"}, []string{history[0].Text, history[1].Text})
}

// TestQueue checks that messages are answered in the order of their arrival, and that only MaxWaiting of them may wait.
func TestQueue(t *testing.T) {
	t.Parallel()
	w := newHarness(t, func(w *harness) { w.cfg.MaxWaiting = 3 })
	id := w.openSession("alice", "echo")
	answers := make(chan string, 4)
	send := func(message string) {
		a, err := w.svc.Send(w.as("alice"), id, message, "", nil)
		if err != nil {
			answers <- err.Error()
			return
		}
		answers <- a.Text
	}
	go send("model: hang queue")
	<-w.model.Gate("queue").Arrived()
	var sends sync.WaitGroup
	for i := range 3 {
		sends.Go(func() { send(fmt.Sprintf("number %d", i)) })
		w.waitForMessages(id, i+1)
	}
	_, err := w.svc.Send(w.as("alice"), id, "one too many", "", nil)
	e := requireReason(t, err, fleet.ReasonLimitReached, "3 messages already wait")
	require.Equal(t, fleet.ResourceExhausted, e.Code)
	info, err := w.svc.Info(w.as("alice"), id)
	require.NoError(t, err)
	require.True(t, info.Working)
	w.model.Gate("queue").Open()
	require.Equal(t, "Went on", <-answers)
	for i := range 3 {
		require.Equal(t, fmt.Sprintf("You said: number %d", i), <-answers)
	}
	sends.Wait()
	require.Empty(t, w.model.RequestsWith("one too many"))
}

// TestCloseEndsCalls checks that closing a session ends its turn and the waiting calls, and that the model gets no further
// request.
func TestCloseEndsCalls(t *testing.T) {
	t.Parallel()
	w := newHarness(t, nil)
	id := w.openSession("alice", "echo")
	errs := make(chan error, 2)
	send := func(message string) {
		_, err := w.svc.Send(w.as("alice"), id, message, "", nil)
		errs <- err
	}
	go send("model: hang close\nmodel: tool think {\"thought\":\"more\"}\nmodel: say never")
	<-w.model.Gate("close").Arrived()
	go send("waiting")
	w.waitForMessages(id, 1)
	require.NoError(t, w.svc.Close(w.as("alice"), id))
	for range 2 {
		err := <-errs
		require.Contains(t, []fleet.Reason{fleet.ReasonTaskFailed, fleet.ReasonSessionNotFound}, fleet.ReasonOf(err), "%v", err)
	}
	w.model.Gate("close").Open()
	w.until(func() bool { return w.countAgents() == 0 })
	require.Len(t, w.model.Requests(), 1)
	info, err := w.svc.Info(w.as("alice"), id)
	require.NoError(t, err)
	require.Equal(t, "closed by alice", info.CloseReason)
	open, err := w.svc.List(w.as("alice"))
	require.NoError(t, err)
	require.Empty(t, open)
	history, err := w.svc.History(w.as("alice"), id, nil)
	require.NoError(t, err)
	require.Equal(t, fleet.TaskStopped, history[1].Status)
}

// TestIdleSessions checks the three occasions on which an idle session is closed: to make room for another one, when it
// gets a message, and by the sweep.
func TestIdleSessions(t *testing.T) {
	t.Parallel()
	w := newHarness(t, func(w *harness) { w.cfg.MaxSessions, w.cfg.IdleTimeout = 2, time.Hour })
	one, two := w.openSession("alice", "echo"), w.openSession("alice", "echo")
	w.advance(59 * time.Minute)
	w.say("alice", two, "still here")
	w.advance(2 * time.Minute)
	three := w.openSession("alice", "echo")
	info, err := w.svc.Info(w.as("alice"), one)
	require.NoError(t, err)
	require.Equal(t, "it was not used for 1h0m0s", info.CloseReason)
	require.Contains(t, w.eventTexts("alice"), "session "+one+" was closed: it was not used for 1h0m0s")
	w.advance(2 * time.Hour)
	_, err = w.svc.Send(w.as("alice"), two, "too late", "", nil)
	e := requireReason(t, err, fleet.ReasonSessionNotFound, "not used for 1h0m0s")
	require.Equal(t, "it was not used for 1h0m0s", e.Metadata["close_reason"])
	require.NoError(t, w.svc.Sweep(t.Context()))
	_, err = w.svc.Send(w.as("alice"), three, "too late", "", nil)
	requireReason(t, err, fleet.ReasonSessionNotFound)
	w.until(func() bool { return w.countAgents() == 0 })
}

// TestEvict checks that the least recently used session is closed to make room for another one.
func TestEvict(t *testing.T) {
	t.Parallel()
	w := newHarness(t, func(w *harness) { w.cfg.MaxSessions, w.cfg.Evict = 2, true })
	one := w.openSession("alice", "echo")
	w.advance(time.Minute)
	two := w.openSession("alice", "echo")
	w.advance(time.Minute)
	w.say("alice", one, "used last")
	w.openSession("alice", "echo")
	info, err := w.svc.Info(w.as("alice"), two)
	require.NoError(t, err)
	require.Contains(t, info.CloseReason, "make room")
	require.Contains(t, w.eventTexts("alice"), "session "+two+" was closed: "+info.CloseReason)
	w.say("alice", one, "still here")
}

// TestRequestID checks that a request with an id is executed once.
func TestRequestID(t *testing.T) {
	t.Parallel()
	w := newHarness(t, nil)
	for _, agent := range []string{"echo", w.createAgent("alice", "papi")} {
		first, err := w.svc.Create(w.as("alice"), agent, "a name", "create "+agent, sessions.Place{})
		require.NoError(t, err)
		again, err := w.svc.Create(w.as("alice"), agent, "a name", "create "+agent, sessions.Place{})
		require.NoError(t, err)
		require.Equal(t, first.ID, again.ID)
		_, err = w.svc.Create(w.as("alice"), agent, "another name", "create "+agent, sessions.Place{})
		requireReason(t, err, fleet.ReasonInvalidArgument, "used before")
	}
	open, err := w.svc.List(w.as("alice"))
	require.NoError(t, err)
	require.Len(t, open, 2)

	id := w.openSession("alice", "echo")
	for range 2 {
		a, err := w.svc.Send(w.as("alice"), id, "only once", "m1", nil)
		require.NoError(t, err)
		require.Equal(t, "You said: only once", a.Text)
		require.NotEmpty(t, a.Contents)
	}
	for range 2 {
		a, err := w.svc.Invoke(w.as("alice"), "echo", "once again", "i1", sessions.Place{}, nil)
		require.NoError(t, err)
		require.Equal(t, "You said: once again", a.Text)
	}
	require.Len(t, w.model.Requests(), 2)
	require.NoError(t, w.svc.Close(w.as("alice"), id))
	a, err := w.svc.Send(w.as("alice"), id, "only once", "m1", nil)
	require.NoError(t, err, "a repeated message must get its answer even in a closed session")
	require.Equal(t, "You said: only once", a.Text)
	_, err = w.svc.Send(w.as("alice"), id, "only twice", "m2", nil)
	requireReason(t, err, fleet.ReasonSessionNotFound)
}

// TestFleetAgent uses a session with an agent of the fleet. The turns of the session are tasks of that agent, closing the
// session keeps the agent, and other principals cannot use it.
func TestFleetAgent(t *testing.T) {
	t.Parallel()
	w := newHarness(t, nil)
	w.createAgent("alice", "papi")
	id := w.openSession("alice", "papi")
	a := w.say("alice", id, "echo hello\ndone all said")
	require.Equal(t, "all said", a.Text)
	task, err := w.core.StartTask(w.as("alice"), service.StartTaskRequest{Agent: "papi", Description: "echo busy\nlisten"})
	require.NoError(t, err)
	answered := make(chan string, 1)
	go func() { // Send waits until the agent is free
		a, err := w.svc.Send(w.as("alice"), id, "done after that", "", nil)
		if err != nil {
			answered <- err.Error()
			return
		}
		answered <- a.Text
	}()
	_, _, err = w.core.SendMessage(w.as("alice"), "papi", "go on", "")
	require.NoError(t, err)
	require.Equal(t, "after that", <-answered)
	history, err := w.svc.History(w.as("alice"), id, nil)
	require.NoError(t, err)
	require.Len(t, history, 4, "the history must not contain the task that is not part of the session")
	for _, m := range history {
		require.NotEqual(t, task.ID, m.TaskID)
	}

	go func() { _, _ = w.svc.Send(w.as("alice"), id, "echo at it\nlisten", "", nil) }()
	w.until(func() bool {
		i, err := w.svc.Info(w.as("alice"), id)
		require.NoError(t, err)
		return i.Working
	})
	require.NoError(t, w.svc.Close(w.as("alice"), id))
	w.until(func() bool {
		v, err := w.core.ShowAgent(w.as("alice"), "papi")
		require.NoError(t, err)
		return v.Task == nil
	})
	_, err = w.svc.Create(w.as("bob"), "papi", "", "", sessions.Place{})
	requireReason(t, err, fleet.ReasonAgentNotFound)
	_, err = w.svc.Invoke(w.as("bob"), "papi", "echo hi", "", sessions.Place{}, nil)
	requireReason(t, err, fleet.ReasonAgentNotFound)
}

// TestTimeout checks that a turn fails at its timeout if the model never stops answering.
func TestTimeout(t *testing.T) {
	t.Parallel()
	w := newHarness(t, func(w *harness) { w.cfg.TurnTimeout = 2 * time.Second })
	id := w.openSession("alice", "echo")
	_, err := w.svc.Send(w.as("alice"), id, "model: forever \"on and on\\n\"", "", nil)
	requireReason(t, err, fleet.ReasonTaskTimedOut, "2s")
	_, err = w.svc.Invoke(w.as("alice"), "echo", "model: forever more", "", sessions.Place{}, nil)
	requireReason(t, err, fleet.ReasonTaskTimedOut)
	w.cfg.TurnTimeout = waittest.Limit
	w.svc = sessions.New(w.core, w.catalog, w.cfg)
	require.Equal(t, "You said: hi", w.say("alice", id, "hi").Text)
}

// TestCallerDisconnects checks that a turn ends when its caller disconnects, and that the session continues. A message with
// a request id may be sent again after a lost connection, so its turn continues for a grace period.
func TestCallerDisconnects(t *testing.T) {
	t.Parallel()
	w := newHarness(t, nil)
	id := w.openSession("alice", "echo")
	done := make(chan error, 2)
	// disconnect runs do, and cancels its context after the model has received the request.
	disconnect := func(gate string, do func(ctx context.Context, message string) error) {
		t.Helper()
		ctx, cancel := context.WithCancel(w.as("alice"))
		defer cancel()
		go func() { done <- do(ctx, "model: hang "+gate+"\nmodel: say more") }()
		<-w.model.Gate(gate).Arrived()
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
	}
	disconnect("gone", func(ctx context.Context, message string) error {
		_, err := w.svc.Send(ctx, id, message, "", nil)
		return err
	})
	require.Equal(t, "You said: next", w.say("alice", id, "next").Text)
	<-w.model.Gate("gone").Left()
	history, err := w.svc.History(w.as("alice"), id, nil)
	require.NoError(t, err)
	require.Equal(t, []any{fleet.TaskStopped, "stopped by alice"}, []any{history[1].Status, history[1].Problem})

	disconnect("alone", func(ctx context.Context, message string) error {
		_, err := w.svc.Invoke(ctx, "echo", message, "i1", sessions.Place{}, nil)
		return err
	})
	<-w.model.Gate("alone").Left()

	again := func(ctx context.Context, message string) error {
		_, err := w.svc.Send(ctx, id, message, "r1", nil)
		return err
	}
	disconnect("back", again)
	answered := make(chan error, 1)
	go func() { answered <- again(w.as("alice"), "model: hang back\nmodel: say more") }()
	w.model.Gate("back").Open()
	require.NoError(t, <-answered)
}

// TestAbandoned checks that the turn of a disconnected caller ends after the grace period if nobody retries.
func TestAbandoned(t *testing.T) {
	t.Parallel()
	w := newHarness(t, func(w *harness) { w.cfg.AbortGrace = 50 * time.Millisecond })
	id := w.openSession("alice", "echo")
	ctx, cancel := context.WithCancel(w.as("alice"))
	done := w.sendInBackground(ctx, id, "model: hang left", "r1")
	<-w.model.Gate("left").Arrived()
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
	<-w.model.Gate("left").Left()
	_, err := w.svc.Send(w.as("alice"), id, "model: hang left", "r1", nil)
	requireReason(t, err, fleet.ReasonTaskFailed, "stopped by alice")
}

// TestRetryAtAnotherServer checks that the turn of a disconnected caller continues if the caller sends the message again at
// another server on the store.
func TestRetryAtAnotherServer(t *testing.T) {
	t.Parallel()
	w := newHarness(t, func(w *harness) { w.cfg.AbortGrace = 50 * time.Millisecond })
	other := sessions.New(w.core, w.catalog, w.cfg)
	id := w.openSession("alice", "echo")
	send := func(ctx context.Context, svc *sessions.Service, done chan<- error) {
		_, err := svc.Send(ctx, id, "model: hang moved\nmodel: say more", "r1", nil)
		done <- err
	}
	ctx, cancel := context.WithCancel(w.as("alice"))
	first, second := make(chan error, 1), make(chan error, 1)
	go send(ctx, w.svc, first)
	<-w.model.Gate("moved").Arrived()
	go send(w.as("alice"), other, second)
	waittest.Until(t, "a call that begins to wait gives no signal", func() bool {
		waiting, err := w.store.Leases(t.Context(), "wait/")
		require.NoError(t, err)
		return len(waiting) == 2
	})
	cancel()
	require.ErrorIs(t, <-first, context.Canceled)
	waittest.Until(t, "the end of the grace period gives no signal", func() bool { return w.svc.Abandoned() == 0 })
	w.svc.Stop() // waits for the interruption of the turn, if there is one
	w.model.Gate("moved").Open()
	require.NoError(t, <-second)
	waiting, err := w.store.Leases(t.Context(), "wait/")
	require.NoError(t, err)
	require.Empty(t, waiting)
}

// TestInterrupt checks that Interrupt ends the turn, that a waiting call gets the next turn, and that the model gets no
// further request for the interrupted turn.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	w := newHarness(t, nil)
	id := w.openSession("alice", "echo")
	first, second := make(chan error, 1), make(chan string, 1)
	go func() {
		_, err := w.svc.Send(w.as("alice"), id, "model: hang stop\nmodel: say never", "", nil)
		first <- err
	}()
	<-w.model.Gate("stop").Arrived()
	go func() { second <- w.say("alice", id, "me too").Text }()
	w.waitForMessages(id, 1)
	task, err := w.svc.Interrupt(w.as("alice"), id)
	require.NoError(t, err)
	require.Equal(t, fleet.TaskStopped, task.Status)
	requireReason(t, <-first, fleet.ReasonTaskFailed, "stopped by alice")
	require.Equal(t, "You said: me too", <-second)
	require.Len(t, w.model.RequestsWith("model: say never"), 1)
}

// TestInterruptOnlyTheSession checks that Interrupt does not stop another task of an agent of the fleet.
func TestInterruptOnlyTheSession(t *testing.T) {
	t.Parallel()
	w := newHarness(t, nil)
	papi := w.openSession("alice", w.createAgent("alice", "papi"))
	busy, err := w.core.StartTask(w.as("alice"), service.StartTaskRequest{Agent: "papi", Description: "echo busy\nlisten"})
	require.NoError(t, err)
	none, err := w.svc.Interrupt(w.as("alice"), papi)
	require.NoError(t, err)
	require.Nil(t, none)
	still, err := w.core.ShowTask(w.as("alice"), busy.ID, nil)
	require.NoError(t, err)
	require.True(t, still.Active(), "a task outside the session must not be stopped")
}

// TestDefaultTurnTimeout checks that the default timeout of a turn is ten minutes, not a task's default of a day.
func TestDefaultTurnTimeout(t *testing.T) {
	t.Parallel()
	w := newHarness(t, nil)
	id := w.openSession("alice", "echo")
	a := w.say("alice", id, "hi")
	require.NoError(t, w.store.View(t.Context(), func(tx fleet.ReadTx) error {
		task, err := tx.Task(a.TaskID)
		require.Equal(t, 10*time.Minute, task.Timeout)
		return err
	}))
}

// TestWithoutDriver checks a server that cannot run agents from definitions. Sessions with agents of the fleet still work.
func TestWithoutDriver(t *testing.T) {
	t.Parallel()
	w := newHarness(t, func(w *harness) { w.cfg.Driver = "absent" })
	_, err := w.svc.Create(w.as("alice"), "echo", "", "", sessions.Place{})
	e := requireReason(t, err, fleet.ReasonBackendUnavailable, "absent")
	require.Equal(t, fleet.Unavailable, e.Code)
	_, err = w.svc.Invoke(w.as("alice"), "echo", "hi", "", sessions.Place{}, nil)
	requireReason(t, err, fleet.ReasonBackendUnavailable)
	w.createAgent("alice", "papi")
	require.Equal(t, "still here", w.say("alice", w.openSession("alice", "papi"), "done still here").Text)
}

// TestAdminClosesASession checks that closing an admin's session stops its turn, even if the agent belongs to another
// principal.
func TestAdminClosesASession(t *testing.T) {
	t.Parallel()
	w := newHarness(t, nil)
	w.createAgent("alice", "papi")
	root := fleet.WithPrincipal(t.Context(), fleet.Principal{Name: "root", Kind: fleet.KindHuman, Scope: fleet.ScopeAdmin})
	x, err := w.svc.Create(root, "papi", "", "", sessions.Place{})
	require.NoError(t, err)
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_, _ = w.svc.Send(root, x.ID, "echo at it\nlisten", "", nil)
	}()
	w.until(func() bool {
		i, err := w.svc.Info(root, x.ID)
		require.NoError(t, err)
		return i.Working
	})
	require.NoError(t, w.svc.Close(root, x.ID))
	<-sent
	w.until(func() bool {
		v, err := w.core.ShowAgent(w.as("alice"), "papi")
		require.NoError(t, err)
		return v.Task == nil
	})
}
