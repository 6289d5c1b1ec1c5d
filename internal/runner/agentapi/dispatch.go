package agentapi

import (
	"context"
	"errors"
	"net/url"
	"time"

	"fleet/internal/fleet"
)

const (
	// settleTime is how long a busy agent may take to become idle before it counts as busy with something else.
	// AgentAPI reports an agent as busy until its screen was unchanged for two seconds.
	settleTime  = 12 * time.Second
	settlePause = 300 * time.Millisecond
	// maxSends limits how often a message is sent that AgentAPI did not accept. maxMisses limits how often AgentAPI may
	// not answer meanwhile.
	maxSends  = 3
	maxMisses = 6
	missPause = 700 * time.Millisecond
)

// Dispatch implements fleet.Runner. It reads the conversation before it sends the prompt, and before it sends it again,
// because a run in the conversation is already dispatched.
func (w runner) Dispatch(ctx context.Context, r fleet.Run) error {
	all, a := w.all, w.agent
	at, err := w.find(ctx)
	if err != nil {
		return err
	}
	api, err := all.reach(a, at)
	if err != nil {
		return err
	}
	if r.SelfStarted {
		return all.begun(ctx, a, r, at, api)
	}
	since := at.Facts().reported()
	t := all.runs.of(r.TaskID)
	had, err := all.deliverOnce(ctx, a, at, api, delivery{
		done: func(v *view) bool { return all.locate(v, a, r, t) >= 0 },
		text: func(v *view) (string, error) {
			if given, _ := t.start(); r.Again && !given && at.Facts().restarted(r) {
				return "", fleet.Errorf(fleet.ReasonAgentOffline,
					"the agent %q was restarted while it got the task, so it may not have it: start the task again if it is not done", a.Name)
			}
			spec, err := v.firstSpec(ctx, at)
			return compose(r, spec), err
		},
		busy: func(v *view) error { return all.busyWith(a, v) },
	})
	if err != nil {
		return err
	}
	if !had {
		t.markDispatched(since)
	}
	return nil
}

// firstSpec returns the specification if the agent must get it now: its workspace does not have it, and the agent has
// no messages yet.
func (v *view) firstSpec(ctx context.Context, at Workspace) (string, error) {
	for _, m := range v.messages {
		if m.Role == roleUser {
			return "", nil
		}
	}
	return at.Spec(ctx)
}

// busyWith returns AGENT_BUSY if the agent is known to work on an active run; otherwise it may be about to become idle.
func (all *Runners) busyWith(a fleet.Agent, v *view) error {
	task := all.lastTask(a, v)
	if task == "" {
		return nil
	}
	t := all.runs.of(task)
	if _, ended := t.result(); ended || t.wasInterrupted() {
		return nil
	}
	return agentBusy(a, task)
}

// lastTask returns the task on which the agent works or worked last; empty if unknown.
func (all *Runners) lastTask(a fleet.Agent, v *view) string {
	for i := len(v.messages) - 1; i >= 0; i-- {
		if v.messages[i].Role == roleUser {
			if task := all.runs.taskOf(a.UID, v.messages[i].Time, ""); task != "" {
				return task
			}
		}
	}
	return ""
}

func agentBusy(a fleet.Agent, task string) error {
	if task == "" {
		return fleet.Errorf(fleet.ReasonAgentBusy, "the agent %q is busy: wait for it, or stop it in Coder", a.Name)
	}
	return fleet.Errorf(fleet.ReasonAgentBusy, "the agent %q is busy with the task %s", a.Name, task).With("task_id", task)
}

// delivery is a message that is being sent to an agent.
type delivery struct {
	done func(*view) bool            // reports whether the agent has it
	text func(*view) (string, error) // returns the text, or why it cannot be sent any more
	busy func(*view) error           // returns an error if the agent will be busy for long; nil: wait
}

// deliverOnce sends the agent a message exactly once. had reports that the agent had it already.
func (all *Runners) deliverOnce(ctx context.Context, a fleet.Agent, at Workspace, api *client, g delivery) (had bool, err error) {
	gives, misses := 0, 0
	var waited time.Duration
	var last error
	for {
		v, err := api.look(ctx)
		if err != nil {
			if misses++; misses >= maxMisses {
				return false, notTaken(a, err)
			}
			if err := all.missed(ctx, a, at, err); err != nil {
				return false, err
			}
			continue
		}
		if g.done(v) {
			return true, nil
		}
		if v.status != statusStable {
			if err := g.busy(v); err != nil {
				return false, err
			}
			if waited >= settleTime {
				return false, agentBusy(a, all.lastTask(a, v))
			}
			waited += settlePause
			if err := all.config.Wait(ctx, settlePause); err != nil {
				return false, err
			}
			continue
		}
		if gives >= maxSends {
			return false, notTaken(a, last)
		}
		text, err := g.text(v)
		if err != nil {
			return false, err
		}
		if text == "" {
			return false, fleet.Invalid(fleet.ReasonTaskRequired, "task_description", "it has no text that can be typed into a terminal: write it in words")
		}
		if last = api.send(ctx, typeRaw, keyClear); last == nil {
			last = api.send(ctx, typeUser, text)
		}
		var refusal *RefusalError
		switch {
		case last == nil:
			if v, err := api.look(ctx); err == nil {
				g.done(v) // records which message it is
			}
			return false, nil
		case ctx.Err() != nil:
			return false, ctx.Err()
		case errors.As(last, &refusal) && refusal.busy():
		default:
			gives++
			if err := all.missed(ctx, a, at, last); err != nil {
				return false, err
			}
		}
	}
}

// missed handles a missing response. It waits, or returns an error if waiting does not help.
func (all *Runners) missed(ctx context.Context, a fleet.Agent, at Workspace, err error) error {
	var unreachable *unreachableError
	var refusal *RefusalError
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if !errors.As(err, &unreachable) && !errors.As(err, &refusal) && !errors.Is(err, context.DeadlineExceeded) {
		err = at.Translate("speaking to the agent "+a.Name, err)
		if e, ok := errors.AsType[*fleet.Error](err); !ok || e.Reason != fleet.ReasonBackendUnavailable || e.RetryAfter > 0 {
			return err // waiting does not help, or the host's rate limit is reached
		}
	}
	if err := all.config.Wait(ctx, missPause); err != nil {
		return err
	}
	there, err := at.Refresh(ctx)
	if err != nil {
		return err
	}
	if !there {
		_, err = all.reach(a, nil)
		return err
	}
	// An agent that only lost its connection may have received the message. The caller checks that.
	if !at.Facts().Running {
		_, err = all.reach(a, at)
	}
	return err
}

func notTaken(a fleet.Agent, cause error) error {
	words := "it does not answer"
	var refusal *RefusalError
	if errors.As(cause, &refusal) {
		words = refusal.Error()
	}
	if broken, ok := errors.AsType[*url.Error](cause); ok {
		cause = broken.Err
	}
	e := fleet.Errorf(fleet.ReasonBackendUnavailable, "the agent %q did not accept the message: %s", a.Name, words)
	e.RetryAfter = 2 * time.Second
	return e.WithCause(cause)
}
