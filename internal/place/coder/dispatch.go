package coder

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"fleet/internal/fleet"
)

const (
	// settleTime is how long an agent that is busy gets to come to rest before it counts as busy with something else:
	// AgentAPI calls an agent busy until its screen has not changed for two seconds.
	settleTime  = 12 * time.Second
	settlePause = 300 * time.Millisecond
	// maxGives is how often a message is given that AgentAPI did not take, and maxMisses how often AgentAPI may not
	// answer meanwhile.
	maxGives  = 3
	maxMisses = 6
	missPause = 700 * time.Millisecond
)

// Dispatch implements fleet.Runner. The conversation is looked at before the run is given, and again before it is given
// again: a run that is in it was given.
func (w runner) Dispatch(ctx context.Context, r fleet.Run) error {
	b, a := w.place, w.agent
	at, err := b.find(ctx, a)
	if err != nil {
		return err
	}
	if at != nil && at.hasRunner() {
		next, err := b.remote(a, at)
		if err != nil {
			return err
		}
		return next.Dispatch(ctx, r)
	}
	api, err := b.reach(a, at)
	if err != nil {
		return err
	}
	if r.SelfStarted {
		return b.begun(ctx, a, r, at, api)
	}
	since := at.reported()
	t := b.runs.of(r.TaskID)
	had, err := b.give(ctx, a, at, api, giving{
		done: func(v *view) bool { return b.locate(v, a, r, t) >= 0 },
		text: func(v *view) (string, error) {
			if given, _ := t.start(); r.Again && !given && b.restarted(at, r) {
				return "", fleet.Errorf(fleet.ReasonAgentOffline,
					"the agent %q was restarted while it was given the task, so nobody knows whether it had it: start the task again if it is not done", a.Name)
			}
			spec, err := b.firstSpec(ctx, a, at, v)
			return compose(r, spec), err
		},
		busy: func(v *view) error { return b.busyWith(a, v) },
	})
	if err != nil {
		return err
	}
	if !had {
		t.gave(since)
	}
	return nil
}

// reach returns the AgentAPI of an agent that runs.
func (b *Place) reach(a fleet.Agent, at *place) (*agentAPI, error) {
	if at == nil {
		return nil, fleet.Errorf(fleet.ReasonAgentOffline, "the agent %q has no workspace in Coder", a.Name)
	}
	if err := b.offline(a, at); err != nil {
		return nil, err
	}
	api, ok := b.api(at)
	if !ok {
		return nil, fleet.Errorf(fleet.ReasonAgentOffline, "the agent %q cannot work, its workspace has no AgentAPI", a.Name)
	}
	return api, nil
}

// offline says why the agent cannot be reached; nil if it can.
func (b *Place) offline(a fleet.Agent, at *place) error {
	state, reason := b.state(at)
	if state == fleet.StateRunning {
		return nil
	}
	words := string(state)
	if reason != "" {
		words += ": " + reason
	}
	return fleet.Errorf(fleet.ReasonAgentOffline, "the agent %q cannot work, its workspace is %s", a.Name, words).With("state", string(state))
}

// restarted says whether the workspace was started after the run was: what was said before is not known any more.
func (b *Place) restarted(at *place, r fleet.Run) bool {
	return at.ws.LatestBuild.CreatedAt.After(r.Started.Add(b.gate.ahead()))
}

// firstSpec returns the specification, if the agent is to be told it now: its template does not take it, and it was not
// given anything yet.
func (b *Place) firstSpec(ctx context.Context, a fleet.Agent, at *place, v *view) (string, error) {
	for _, m := range v.messages {
		if m.Role == roleUser {
			return "", nil
		}
	}
	version, err := b.version(ctx, at.ws.LatestBuild.TemplateVersionID)
	if err != nil || at.spec(version) != nil {
		return "", err
	}
	return a.Spec, nil
}

// busyWith returns AGENT_BUSY when it is known that the agent works on a run that goes on; otherwise it may be coming to
// rest.
func (b *Place) busyWith(a fleet.Agent, v *view) error {
	task := b.lastTask(a, v)
	if task == "" {
		return nil
	}
	t := b.runs.of(task)
	if _, ended := t.result(); ended || t.wasInterrupted() {
		return nil
	}
	return agentBusy(a, task)
}

// lastTask is the task that the agent works on, or worked on last; "" when it is not known.
func (b *Place) lastTask(a fleet.Agent, v *view) string {
	for i := len(v.messages) - 1; i >= 0; i-- {
		if v.messages[i].Role == roleUser {
			if task := b.runs.taskOf(a.UID, v.messages[i].Time, ""); task != "" {
				return task
			}
		}
	}
	return ""
}

func agentBusy(a fleet.Agent, task string) error {
	if task == "" {
		return fleet.Errorf(fleet.ReasonAgentBusy, "the agent %q works on something else: wait for that, or stop it in Coder", a.Name)
	}
	return fleet.Errorf(fleet.ReasonAgentBusy, "the agent %q works on the task %s", a.Name, task).With("task_id", task)
}

// giving is a message on its way to an agent.
type giving struct {
	done func(*view) bool            // whether the agent has it
	text func(*view) (string, error) // what it is, or why it cannot be given any more
	busy func(*view) error           // says that an agent that works will do so for long; nil: it may come to rest
}

// give gives the agent a message once, however often that takes. had says that the agent had it already.
func (b *Place) give(ctx context.Context, a fleet.Agent, at *place, api *agentAPI, g giving) (had bool, err error) {
	gives, misses := 0, 0
	var waited time.Duration
	var last error
	for {
		v, err := api.look(ctx)
		if err != nil {
			if misses++; misses >= maxMisses {
				return false, notTaken(a, err)
			}
			if err := b.missed(ctx, a, at, err); err != nil {
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
				return false, agentBusy(a, b.lastTask(a, v))
			}
			waited += settlePause
			if err := b.wait(ctx, settlePause); err != nil {
				return false, err
			}
			continue
		}
		if gives >= maxGives {
			return false, notTaken(a, last)
		}
		text, err := g.text(v)
		if err != nil {
			return false, err
		}
		if text == "" {
			return false, fleet.Invalid(fleet.ReasonTaskRequired, "task_description", "there is nothing in it that could be typed into a terminal")
		}
		if last = api.send(ctx, typeRaw, keyClear); last == nil {
			last = api.send(ctx, typeUser, text)
		}
		var refusal *refusalError
		switch {
		case last == nil:
			if v, err := api.look(ctx); err == nil {
				g.done(v) // notes which message it is
			}
			return false, nil
		case ctx.Err() != nil:
			return false, ctx.Err()
		case errors.As(last, &refusal) && refusal.busy():
		default:
			gives++
			if err := b.missed(ctx, a, at, last); err != nil {
				return false, err
			}
		}
	}
}

// missed deals with an answer that did not come: it waits, or returns why waiting does not help.
func (b *Place) missed(ctx context.Context, a fleet.Agent, at *place, err error) error {
	var unreachable *unreachableError
	var refusal *refusalError
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if !errors.As(err, &unreachable) && !errors.As(err, &refusal) && !errors.Is(err, context.DeadlineExceeded) {
		if err = translate("speaking to the agent "+a.Name, err); fleet.ReasonOf(err) != fleet.ReasonBackendUnavailable || statusOf(err) != 0 {
			return err
		}
		var e *fleet.Error
		if errors.As(err, &e) && e.RetryAfter > 0 {
			return err // Coder wants to be left alone
		}
	}
	if err := b.wait(ctx, missPause); err != nil {
		return err
	}
	there, err := at.refresh(ctx)
	if err != nil {
		return err
	}
	if !there {
		_, err = b.reach(a, nil)
		return err
	}
	// An agent that only lost its connection may have taken what it was given: that is for the caller to find out.
	if at.ws.LatestBuild.Transition != "start" || at.ws.LatestBuild.Status != "running" {
		_, err = b.reach(a, at)
	}
	return err
}

func notTaken(a fleet.Agent, cause error) error {
	words := "it does not answer"
	var refusal *refusalError
	if errors.As(cause, &refusal) {
		words = refusal.Error()
	}
	return unavailable("the agent %q did not take what it was given: %s", a.Name, words).Because(connectionError(cause))
}

// reported is when the agent reported last, by Coder's clock.
func (p *place) reported() time.Time {
	at := p.ws.LatestBuild.CreatedAt
	if _, app := p.agent(); app != nil {
		for _, s := range app.Statuses {
			if s.CreatedAt.After(at) {
				at = s.CreatedAt
			}
		}
	}
	return at
}

// report is what the agent says of itself, by way of Coder.
type report struct {
	state, message, uri string
}

// words are the report for people.
func (r report) words() string {
	return strings.TrimSpace(fmt.Sprintf("%s %s", r.message, r.uri))
}

// report returns what the agent has reported between the times; an until of zero means now. A watcher of the agent's
// screen reports too, without words, or repeating the last ones: that is no report of the agent's own.
func (p *place) report(since, until time.Time) (report, bool) {
	_, app := p.agent()
	if app == nil {
		return report{}, false
	}
	var last report
	found := false
	for i := len(app.Statuses) - 1; i >= 0; i-- { // the newest is the first
		s := app.Statuses[i]
		if !s.CreatedAt.After(since) || !until.IsZero() && s.CreatedAt.After(until) || s.Message == "" {
			continue
		}
		explicit := s.State == "complete" || s.State == "failure"
		if found && !explicit && s.Message == last.message {
			continue
		}
		last, found = report{state: string(s.State), message: plain(s.Message), uri: plain(s.URI)}, true
	}
	return last, found
}
