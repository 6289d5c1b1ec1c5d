package subagents_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/toolset/subagents"
)

// TestConversation checks which calls continue a conversation, and which begin another one.
func TestConversation(t *testing.T) {
	t.Parallel()
	w := newTestService(t, nil)
	w.define("github", "session: true", "You know GitHub.")
	first := w.mustRun("github", "say one")
	second := w.mustRun("github", "say two")
	require.NotEmpty(t, first.SessionID)
	require.Equal(t, first.SessionID, second.SessionID)
	calls := w.calls()
	require.Equal(t, "-", calls[0].flag("--resume"))
	require.NotContains(t, calls[0].Argv, "--no-session-persistence")
	require.Equal(t, calls[1].flag("--resume"), "s-"+strconv.Itoa(calls[0].PID))

	// Another caller has its own conversation.
	bobResult, err := w.Run(asPrincipal(t.Context(), "bob"), subagents.Request{Agent: "github", Prompt: "say hi"})
	require.NoError(t, err)
	require.NotEqual(t, first.SessionID, bobResult.SessionID)
	require.Equal(t, "-", w.calls()[2].flag("--resume"))

	// The system prompt changes: the conversation continues, and the agent gets the new prompt once.
	w.define("github", "session: true", "You know GitLab.")
	w.write("github/memory.md", "The user likes birds.\n")
	require.Equal(t, first.SessionID, w.mustRun("github", "say three").SessionID)
	require.Equal(t, first.SessionID, w.mustRun("github", "say four").SessionID)
	calls = w.calls()
	require.Contains(t, calls[3].Prompt, "has changed. From now on this holds instead:\n\nYou know GitLab.\n\n# Memory\n\nThe user likes birds.\n\nYour task now:\n\nsay three")
	require.Equal(t, "say four", calls[4].Prompt)

	// The permissions change: a new conversation begins with the new definition.
	w.define("github", "session: true\npermissions: {allow: [Read]}", "You know GitLab.")
	afterChange := w.mustRun("github", "say five")
	require.NotEqual(t, first.SessionID, afterChange.SessionID)
	c := w.calls()[5]
	require.Equal(t, "-", c.flag("--resume"))
	require.Equal(t, "Read", c.flag("--allowedTools"))
	require.Contains(t, c.System, "The user likes birds.")
	require.NoError(t, w.fleet.Store.View(t.Context(), func(tx fleet.ReadTx) error {
		old, err := tx.Session(fleet.SessionKey{ID: first.SessionID})
		require.NoError(t, err)
		require.Equal(t, "its definition has changed", old.CloseReason)
		require.Equal(t, 4, old.Turns)
		return nil
	}))
	w.fleet.WaitStored(func() bool { return len(w.agents()) == 2 })

	// The agent is deleted: a new conversation begins.
	for _, v := range w.agents() {
		require.NoError(t, w.fleet.RemoveAgent(asRoot(t.Context()), v.UID))
	}
	require.NotEqual(t, afterChange.SessionID, w.mustRun("github", "say six").SessionID)

	// A task that fails does not end the conversation.
	_, err = w.run("github", "fail once")
	requireReason(t, err, fleet.ReasonTaskFailed)
	require.NotEqual(t, "-", lastOf(w.calls()).flag("--resume"))
}

// TestConversationTakesTurns checks that concurrent calls in one conversation run one after the other, and that calls
// beyond MaxWaiting are refused.
func TestConversationTakesTurns(t *testing.T) {
	t.Parallel()
	w := newTestService(t, func(c *subagents.Config) { c.MaxWaiting = 3 })
	w.define("s", "session: true", "Do it.")
	first := make(chan *subagents.Result, 1)
	go func() {
		r, _ := w.run("s", "wait\nsay first")
		first <- r
	}()
	w.waitForCalls(1)
	var mu sync.Mutex
	var sessions []string
	var refused int
	var calls []func()
	for range 8 {
		calls = append(calls, func() {
			r, err := w.run("s", "say next")
			mu.Lock()
			defer mu.Unlock()
			switch fleet.ReasonOf(err) {
			case "":
				sessions = append(sessions, r.SessionID)
			case fleet.ReasonLimitReached:
				if refused++; refused == 5 {
					w.releaseWaiting()
				}
			default:
				t.Errorf("%v", err)
			}
		})
	}
	runConcurrently(calls...)
	f := <-first
	require.Equal(t, "first", f.Text)
	require.Equal(t, []string{f.SessionID, f.SessionID, f.SessionID}, sessions)
	require.Equal(t, 5, refused)
	require.Len(t, w.calls(), 4)
	require.Len(t, w.agents(), 1)
}

// TestConversationWaits checks that a call waits up to QueueWait for its turn, also if another server uses the conversation.
func TestConversationWaits(t *testing.T) {
	t.Parallel()
	w := newTestService(t, func(c *subagents.Config) { c.QueueWait = 50 * time.Millisecond })
	w.define("s", "session: true", "Do it.")
	done := w.runInBackground(w.ctx(), subagents.Request{Agent: "s", Prompt: "wait\nsay first"})
	w.waitForCalls(1)
	_, err := w.run("s", "say next")
	requireReason(t, err, fleet.ReasonAgentBusy, "try again later")

	// Another server's turn counts too.
	settings := subagents.Settings{Dir: w.dir + "/agents"}
	otherService := subagents.New(w.fleet.Service, subagents.Config{Settings: settings, QueueWait: 50 * time.Millisecond})
	_, err = otherService.Run(w.ctx(), subagents.Request{Agent: "s", Prompt: "say next"})
	requireReason(t, err, fleet.ReasonAgentBusy)
	patientService := subagents.New(w.fleet.Service, subagents.Config{Settings: settings})
	go w.releaseWaiting()
	r, err := patientService.Run(w.ctx(), subagents.Request{Agent: "s", Prompt: "say next"})
	require.NoError(t, err)
	require.Equal(t, "next", r.Text)
	require.NoError(t, <-done)
	require.Len(t, w.agents(), 1)
}

// TestWaitingCallEndsWithItsContext checks that a call stops waiting for its turn when its context ends.
func TestWaitingCallEndsWithItsContext(t *testing.T) {
	t.Parallel()
	w := newTestService(t, nil)
	w.define("s", "session: true", "Do it.")
	done := w.runInBackground(w.ctx(), subagents.Request{Agent: "s", Prompt: "wait\nsay first"})
	w.waitForCalls(1)
	ctx, cancel := context.WithTimeout(w.ctx(), 10*time.Millisecond)
	defer cancel()
	_, err := w.Run(ctx, subagents.Request{Agent: "s", Prompt: "say next"})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	w.releaseWaiting()
	require.NoError(t, <-done)
}
