package subagents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"reflect"

	"fleet/internal/fleet"
	"fleet/internal/service"
)

// inConversation lets the agent answer that the caller has talked to before.
func (r *run) inConversation(ctx context.Context, prompt string) error {
	leave, err := r.turns.take(ctx, r.caller.owner.Name+"\x00"+r.conversation(), r.d.Name, r.cfg.QueueWait)
	if err != nil {
		return err
	}
	defer leave()
	for {
		old, err := r.before(ctx)
		if err != nil {
			return err
		}
		if old != nil {
			return r.repeatedIn(ctx, old, prompt)
		}
		task, err := r.nextTurn(ctx, prompt)
		switch {
		case err == nil:
			return r.answer(ctx, task, prompt)
		case errors.Is(err, errRepeated), fleet.ReasonOf(err) == fleet.ReasonSessionExists:
			continue // another server was faster
		case fleet.ReasonOf(err) == fleet.ReasonAgentBusy:
			if err := r.othersTurn(ctx, err); err != nil {
				return err
			}
		default:
			return err
		}
	}
}

// conversation returns the key of the caller's conversation with the subagent among its owner's conversations.
func (r *run) conversation() string {
	if r.caller.agent {
		return r.caller.name + "/" + r.d.Name
	}
	return r.d.Name
}

// repeatedIn answers a repeated request in the conversation in which it was first made.
func (r *run) repeatedIn(ctx context.Context, old *fleet.Request, prompt string) error {
	task, err := r.follow(ctx, old.TaskID)
	if err != nil {
		return err
	}
	r.result.SessionID = task.SessionID
	return r.answer(ctx, task, prompt)
}

// othersTurn waits for the end of a task that another server, or an earlier process of this one, has given the agent.
func (r *run) othersTurn(ctx context.Context, busy error) error {
	e, ok := errors.AsType[*fleet.Error](busy)
	if !ok || e.Metadata["task_id"] == "" {
		return busy
	}
	within, cancel := context.WithTimeout(ctx, r.cfg.QueueWait)
	defer cancel()
	_, err := r.fleet.FollowTask(within, e.Metadata["task_id"], 0, nil)
	if err != nil && ctx.Err() == nil && within.Err() != nil {
		return busy
	}
	return err
}

// nextTurn gives the agent of the conversation its next task. It replaces a conversation that cannot continue by a new one.
func (r *run) nextTurn(ctx context.Context, prompt string) (*fleet.Task, error) {
	session, agent, err := r.find(ctx)
	if err != nil {
		return nil, err
	}
	if session == nil {
		return r.open(ctx, prompt)
	}
	want := r.launch()
	if reason := r.stale(agent, want); reason != "" {
		if err := r.end(ctx, session, reason); err != nil {
			return nil, err
		}
		return r.open(ctx, prompt)
	}
	r.result.SessionID = session.ID
	told := r.instructionsHash()
	if session.Source != told {
		prompt = "What you were told about yourself has changed. From now on this holds instead:\n\n" + r.d.instructions() + "\n\nYour task now:\n\n" + prompt
		if len(prompt) > fleet.MaxText {
			return nil, fleet.Invalid(fleet.ReasonInvalidArgument, "prompt", "the prompt and the subagent's new instructions have %d bytes, and at most %d are taken: shorten the prompt", len(prompt), fleet.MaxText)
		}
	}
	return r.fleet.Turn(ctx, service.TurnRequest{
		Method: method, AgentUID: session.AgentUID, Prompt: prompt, Timeout: r.d.Timeout, SessionID: session.ID,
		Also: func(tx fleet.Tx, a *fleet.Agent, t *fleet.Task) error {
			now, err := tx.Session(session.ID)
			if err != nil {
				return err
			}
			now.Messages, now.UsedAt, now.Source = now.Messages+1, r.cfg.Now().UTC(), told
			if err := tx.UpdateSession(now); err != nil {
				return err
			}
			return r.remember(tx, a, t)
		},
	})
}

// find returns the caller's conversation with the subagent, and its agent; nil if there is none.
func (r *run) find(ctx context.Context) (session *fleet.Session, agent *fleet.Agent, err error) {
	err = r.store.View(ctx, func(tx fleet.ReadTx) error {
		if session, err = tx.SessionByKey(fleet.ToolsetSubagents, r.caller.owner.Name, r.conversation()); err != nil || session == nil {
			return err
		}
		agent, err = tx.Agent(session.AgentUID)
		return err
	})
	return session, agent, err
}

// stale returns why the conversation's agent cannot continue; empty if it can. An agent never changes, so it cannot
// continue if its definition has changed what it may do. A changed prompt can be told to it.
func (r *run) stale(a *fleet.Agent, want service.LaunchRequest) string {
	switch {
	case a == nil || !a.DeletedAt.IsZero() || a.Desired == fleet.DesiredDeleted:
		return "its agent is gone"
	case a.Place != want.Place || a.Project != want.Project && want.Config == nil || !same(a.Config, want.Config):
		return "its definition has changed"
	case a.State == fleet.StateFailed || a.State == fleet.StateCanceled:
		return "its agent could not be made"
	case want.Config != nil && a.State != fleet.StateRunning && !a.State.Moving():
		return "its agent does not work any more"
	}
	return ""
}

// same reports whether both configurations make the same agent, apart from its prompt.
func same(a, b *fleet.AgentConfig) bool {
	if a == nil || b == nil {
		return a == b
	}
	plain := func(r fleet.AgentConfig) (v any) {
		r.System = ""
		text, _ := json.Marshal(r) // an agent's configuration is stored as JSON
		_ = json.Unmarshal(text, &v)
		return v
	}
	return reflect.DeepEqual(plain(*a), plain(*b))
}

// instructionsHash returns a hash of the agent's prompt.
func (r *run) instructionsHash() string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(r.d.instructions()))
	return fmt.Sprintf("%s/%s %016x", r.d.Name, agentFile, h.Sum64())
}

// open begins a conversation with its first task.
func (r *run) open(ctx context.Context, prompt string) (*fleet.Task, error) {
	l := r.launch()
	r.result.SessionID = r.cfg.NewID()
	l.SessionID = r.result.SessionID
	now := r.cfg.Now().UTC()
	session := fleet.Session{
		ID: r.result.SessionID, Toolset: fleet.ToolsetSubagents, Owner: r.caller.owner.Name, Name: r.d.Name, Key: r.conversation(),
		Agent: r.d.Name, Source: r.instructionsHash(), CreatedAt: now, UsedAt: now, Messages: 1,
	}
	l.Prompt = prompt
	l.Also = func(tx fleet.Tx, a *fleet.Agent, t *fleet.Task) error {
		s := session
		s.AgentUID = a.UID
		if err := tx.InsertSession(&s); err != nil {
			return err
		}
		return r.remember(tx, a, t)
	}
	v, err := r.fleet.Launch(ctx, l)
	if err != nil {
		return nil, err
	}
	return v.Task, r.ready(ctx, v.Task)
}

// end closes a conversation and deletes its agent.
func (r *run) end(ctx context.Context, session *fleet.Session, reason string) error {
	err := r.store.Update(ctx, func(tx fleet.Tx) error {
		now, err := tx.Session(session.ID)
		if err != nil || now == nil || !now.ClosedAt.IsZero() {
			return err
		}
		now.ClosedAt, now.CloseReason = r.cfg.Now().UTC(), reason
		return tx.UpdateSession(now)
	})
	if err != nil {
		return err
	}
	if err := r.fleet.Remove(ctx, session.AgentUID); err != nil && fleet.ReasonOf(err) != fleet.ReasonAgentNotFound {
		return err
	}
	return nil
}
