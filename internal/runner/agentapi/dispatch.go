package agentapi

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"

	"fleet/internal/fleet"
)

const (
	// idleTimeout is how long a message waits for a busy agent to become idle before deliverOnce returns AGENT_BUSY.
	// AgentAPI reports an agent as busy until its screen was unchanged for two seconds.
	idleTimeout   = 12 * time.Second
	idlePollPause = 300 * time.Millisecond
	// A call fails after maxFailedSends failed attempts to send a message, or after maxFailedReads failed attempts to
	// read the conversation.
	maxFailedSends = 3
	maxFailedReads = 6
	failurePause   = 700 * time.Millisecond // before the next attempt
)

// Dispatch implements fleet.Runner. It reads the conversation before each attempt to send the prompt. If the
// conversation already has the prompt, Dispatch sends nothing and succeeds.
func (w runner) Dispatch(ctx context.Context, r fleet.Run) error {
	runners, a := w.runners, w.agent
	if err := r.Options.CheckSupported(nil, "the workspace of agent "+a.Name+", which has AgentAPI and no fleet-runner,", nil); err != nil {
		return err
	}
	workspace, err := w.findWorkspace(ctx)
	if err != nil {
		return err
	}
	api, err := runners.reachableClient(a, workspace)
	if err != nil {
		return err
	}
	if r.SelfStarted {
		return runners.waitStarted(ctx, a, r, workspace, api)
	}
	since := workspace.Facts().lastReportTime()
	t := runners.transcripts.getOrCreate(r.TaskID)
	alreadySent, err := runners.deliverOnce(ctx, a, workspace, api, delivery{
		locate: func(v *view) bool { return runners.locate(v, a, r, t) >= 0 },
		text: func(v *view) (string, error) {
			if dispatched, _ := t.dispatchState(); r.Again && !dispatched && workspace.Facts().restarted(r) {
				return "", fleet.Errorf(fleet.ReasonAgentOffline,
					"the agent %q restarted while the task was being sent, so the task may be lost: start the task again if it was not done", a.Name)
			}
			spec, err := v.firstSpec(ctx, workspace)
			return messageText(r, spec), err
		},
		checkNotBusy: func(v *view) error { return runners.checkNotBusy(a, v) },
	})
	if err != nil {
		return err
	}
	if !alreadySent {
		t.markDispatched(since)
	}
	return nil
}

// firstSpec returns the specification that the agent must get with its first message. The text is empty if the workspace has
// the specification, or if the conversation already has a message to the agent.
func (v *view) firstSpec(ctx context.Context, workspace Workspace) (string, error) {
	if slices.ContainsFunc(v.messages, func(m message) bool { return m.Role == roleUser }) {
		return "", nil
	}
	return workspace.Spec(ctx)
}

// checkNotBusy returns AGENT_BUSY if the agent is known to work on a task that has not ended. Otherwise it returns nil,
// because the agent may become idle soon.
func (runners *Runners) checkNotBusy(a fleet.Agent, v *view) error {
	task := runners.lastTask(a, v)
	if task == "" {
		return nil
	}
	t := runners.transcripts.getOrCreate(task)
	if _, ended := t.endOutcome(); ended || t.wasInterrupted() {
		return nil
	}
	return busyError(a, task)
}

// lastTask returns the task on which the agent works or worked last. It returns an empty id if that task is unknown.
func (runners *Runners) lastTask(a fleet.Agent, v *view) string {
	for i := len(v.messages) - 1; i >= 0; i-- {
		if v.messages[i].Role == roleUser {
			if task := runners.transcripts.taskOf(a.UID, v.messages[i].Time, ""); task != "" {
				return task
			}
		}
	}
	return ""
}

func busyError(a fleet.Agent, task string) error {
	if task == "" {
		return fleet.Errorf(fleet.ReasonAgentBusy, "the agent %q is busy: wait until it is idle, or stop it in Coder", a.Name)
	}
	return fleet.Errorf(fleet.ReasonAgentBusy, "the agent %q is busy with the task %s", a.Name, task).With("task_id", task)
}

// delivery is a message that is being sent to an agent.
type delivery struct {
	locate       func(*view) bool            // records where the message is in the conversation, and reports whether it is there
	text         func(*view) (string, error) // returns the text, or an error if the message must no longer be sent
	checkNotBusy func(*view) error           // returns an error if the agent will be busy for long, or nil to wait for it
}

// deliverOnce sends the agent a message once the agent is idle, unless the conversation already has the message. alreadySent
// reports whether it had. deliverOnce retries failed requests, and looks for the message before each attempt.
func (runners *Runners) deliverOnce(ctx context.Context, a fleet.Agent, workspace Workspace, api *client, d delivery) (alreadySent bool, err error) {
	failedSends, failedReads := 0, 0
	var waitTime time.Duration
	var sendErr error
	waitForIdle := func(v *view) error {
		if waitTime >= idleTimeout {
			return busyError(a, runners.lastTask(a, v))
		}
		waitTime += idlePollPause
		return runners.config.Wait(ctx, idlePollPause)
	}
	for {
		v, err := api.readView(ctx)
		if err != nil {
			if failedReads++; failedReads >= maxFailedReads {
				return false, notAcceptedError(a, err)
			}
			if err := runners.waitAfterFailure(ctx, a, workspace, err); err != nil {
				return false, err
			}
			continue
		}
		if d.locate(v) {
			return true, nil
		}
		if v.status != statusStable {
			if err := d.checkNotBusy(v); err != nil {
				return false, err
			}
			if err := waitForIdle(v); err != nil {
				return false, err
			}
			continue
		}
		if failedSends >= maxFailedSends {
			return false, notAcceptedError(a, sendErr)
		}
		text, err := d.text(v)
		if err != nil {
			return false, err
		}
		if text == "" {
			return false, fleet.Invalid(fleet.ReasonTaskRequired, "task_description", "task_description has no characters that can be typed into a terminal: write the task as text")
		}
		if sendErr = api.send(ctx, typeRaw, keyClear); sendErr == nil {
			sendErr = api.send(ctx, typeUser, text)
		}
		var refusal *RefusalError
		switch {
		case sendErr == nil:
			if v, err := api.readView(ctx); err == nil {
				d.locate(v) // to record where the message is
			}
			return false, nil
		case ctx.Err() != nil:
			return false, ctx.Err()
		case errors.As(sendErr, &refusal) && strings.Contains(refusal.text, "waiting for user input"): // the agent has begun to work
			if err := waitForIdle(v); err != nil {
				return false, err
			}
		default:
			failedSends++
			if err := runners.waitAfterFailure(ctx, a, workspace, sendErr); err != nil {
				return false, err
			}
		}
	}
}

// waitAfterFailure handles a failed request. If a retry can help, it waits and returns nil. Otherwise it returns the error
// for the caller.
func (runners *Runners) waitAfterFailure(ctx context.Context, a fleet.Agent, workspace Workspace, err error) error {
	var unreachable *unreachableError
	var refusal *RefusalError
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if !errors.As(err, &unreachable) && !errors.As(err, &refusal) && !errors.Is(err, context.DeadlineExceeded) {
		err = workspace.Translate("speaking to the agent "+a.Name, err)
		if e, ok := errors.AsType[*fleet.Error](err); !ok || e.Reason != fleet.ReasonBackendUnavailable || e.RetryAfter > 0 {
			return err // waiting does not help, or the host's rate limit is reached
		}
	}
	if err := runners.config.Wait(ctx, failurePause); err != nil {
		return err
	}
	exists, err := workspace.Refresh(ctx)
	if err != nil {
		return err
	}
	if !exists {
		_, err = runners.reachableClient(a, nil)
		return err
	}
	// If only the connection was lost, the agent may have received the message. The caller looks for it.
	if !workspace.Facts().Running {
		_, err = runners.reachableClient(a, workspace)
	}
	return err
}

func notAcceptedError(a fleet.Agent, cause error) error {
	text := "it does not answer"
	var refusal *RefusalError
	if errors.As(cause, &refusal) {
		text = refusal.Error()
	}
	if urlErr, ok := errors.AsType[*url.Error](cause); ok {
		cause = urlErr.Err
	}
	e := fleet.Errorf(fleet.ReasonBackendUnavailable, "the agent %q did not accept the message: %s", a.Name, text)
	e.RetryAfter = 2 * time.Second
	return e.WithCause(cause)
}
