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
	"fleet/internal/toolset/conversation"
)

// runInConversation runs the call in the caller's conversation with the subagent, on the agent of that conversation.
func (r *run) runInConversation(ctx context.Context, prompt string) error {
	leave, err := r.turns.Take(ctx, r.caller.owner.Name+"\x00"+r.conversationKey(), r.config.QueueWait)
	switch {
	case errors.Is(err, conversation.ErrFull):
		return fleet.Errorf(fleet.ReasonLimitReached,
			"%d calls already wait for the subagent %q, which answers one call at a time in a conversation: try again when they have ended", r.config.MaxWaiting, r.definition.Name).
			AtLimit("waiting", int64(r.config.MaxWaiting), int64(r.config.MaxWaiting)).After(fleet.BusyRetryAfter)
	case errors.Is(err, conversation.ErrLate):
		return fleet.Errorf(fleet.ReasonAgentBusy, "the subagent %q has worked on other calls of yours for %s: try again later", r.definition.Name, r.config.QueueWait).With("agent_name", r.definition.Name)
	case err != nil:
		return err
	}
	defer leave()
	for {
		earlier, repeated, err := r.core.EarlierResult(ctx, r.call)
		if err != nil {
			return err
		}
		if repeated {
			return r.awaitEarlierTask(ctx, earlier.ObjectID, prompt)
		}
		task, err := r.nextTurn(ctx, prompt)
		switch {
		case err == nil:
			return r.answer(ctx, task, prompt)
		case fleet.ReasonOf(err) == fleet.ReasonSessionExists, fleet.ReasonOf(err) == fleet.ReasonSessionNotFound:
			continue // another server has opened or closed the conversation meanwhile
		case fleet.ReasonOf(err) == fleet.ReasonAgentBusy:
			if err := r.waitForOtherTurn(ctx, err); err != nil {
				return err
			}
		default:
			return err
		}
	}
}

// conversationKey returns the key that identifies the caller's conversation with the subagent. The key is unique among the
// owner's conversations.
func (r *run) conversationKey() string {
	if r.caller.isAgent {
		return r.caller.name + "/" + r.definition.Name
	}
	return r.definition.Name
}

// waitForOtherTurn waits for the end of the task that keeps the agent busy. Another server, or an earlier process of this
// server, has started that task. busyErr is the error that names the task.
func (r *run) waitForOtherTurn(ctx context.Context, busyErr error) error {
	e, ok := errors.AsType[*fleet.Error](busyErr)
	if !ok || e.Metadata["task_id"] == "" {
		return busyErr
	}
	waitCtx, cancel := context.WithTimeout(ctx, r.config.QueueWait)
	defer cancel()
	_, err := r.core.FollowTask(waitCtx, e.Metadata["task_id"], 0, nil)
	if err != nil && ctx.Err() == nil && waitCtx.Err() != nil {
		return busyErr
	}
	return err
}

// nextTurn gives the agent of the conversation its next task. If there is no conversation, nextTurn opens one. If the
// conversation cannot continue, nextTurn closes it and opens a new one.
func (r *run) nextTurn(ctx context.Context, prompt string) (*fleet.Task, error) {
	session, err := r.core.SessionByKey(ctx, fleet.ToolsetSubagents, r.conversationKey())
	if err != nil {
		return nil, err
	}
	if session == nil {
		return r.openSession(ctx, prompt)
	}
	request := r.launchRequest()
	if reason := r.staleReason(session.Agent, request); reason != "" {
		if err := r.closeSession(ctx, session.Session, reason); err != nil {
			return nil, err
		}
		return r.openSession(ctx, prompt)
	}
	r.result.SessionID = session.ID
	hash := r.instructionsHash()
	if session.Source != hash {
		prompt = "What you were told about yourself has changed. From now on this holds instead:\n\n" + r.definition.systemPrompt() + "\n\nYour task now:\n\n" + prompt
		if len(prompt) > fleet.MaxText {
			return nil, fleet.InvalidField("prompt", "the prompt and the subagent's new instructions have %d bytes, and the limit is %d: shorten the prompt", len(prompt), fleet.MaxText)
		}
	}
	return r.core.StartTurn(ctx, service.TurnRequest{
		Method: runMethod, RequestID: r.call.RequestID, Body: r.call.Body, Caller: r.call.Caller,
		AgentUID: session.AgentUID, Prompt: prompt, Timeout: r.definition.Timeout, SessionID: session.ID,
		Message: &service.SessionMessage{Source: hash, At: r.config.Now().UTC()},
	})
}

// staleReason returns why the conversation's agent cannot continue, or "" if it can. An agent's configuration never changes,
// so the agent cannot continue if the definition now gives other rights or another place. A changed system prompt does
// not matter, because nextTurn sends the new one to the agent.
func (r *run) staleReason(a *fleet.Agent, request service.LaunchRequest) string {
	switch {
	case a == nil || !a.DeletedAt.IsZero() || a.Desired == fleet.DesiredDeleted:
		return "its agent was deleted"
	case a.Place != request.Place || a.Project != request.Project && request.Config == nil || !sameConfig(a.Config, request.Config):
		return "its definition has changed"
	case a.State == fleet.StateFailed || a.State == fleet.StateCanceled:
		return "its agent could not be created"
	case request.Config != nil && a.State != fleet.StateRunning && !a.State.Moving():
		return "its agent no longer runs"
	}
	return ""
}

// sameConfig reports whether both configurations make the same agent, apart from its system prompt.
func sameConfig(a, b *fleet.AgentConfig) bool {
	if a == nil || b == nil {
		return a == b
	}
	withoutPrompt := func(r fleet.AgentConfig) (v any) {
		r.SystemPrompt = ""
		text, _ := json.Marshal(r) // an agent's configuration is stored as JSON
		_ = json.Unmarshal(text, &v)
		return v
	}
	return reflect.DeepEqual(withoutPrompt(*a), withoutPrompt(*b))
}

// instructionsHash returns the name of the definition with a hash of the subagent's instructions. The session stores it, so
// that nextTurn notices when the instructions change.
func (r *run) instructionsHash() string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(r.definition.systemPrompt()))
	return fmt.Sprintf("%s/%s %016x", r.definition.Name, agentFile, h.Sum64())
}

// openSession begins a conversation with its first task, and waits until its agent is ready.
func (r *run) openSession(ctx context.Context, prompt string) (*fleet.Task, error) {
	l := r.launchRequest()
	r.result.SessionID = r.config.NewID()
	l.SessionID = r.result.SessionID
	now := r.config.Now().UTC()
	session := fleet.Session{
		ID: r.result.SessionID, Toolset: fleet.ToolsetSubagents, Owner: r.caller.owner.Name, Name: r.definition.Name, Key: r.conversationKey(),
		Agent: r.definition.Name, Source: r.instructionsHash(), CreatedAt: now, UsedAt: now, Turns: 1,
	}
	l.Prompt = prompt
	opened, task, err := r.core.OpenSession(ctx, service.SessionRequest{Session: session, Launch: &l})
	if err != nil {
		return nil, err
	}
	r.result.SessionID = opened.ID
	return task, r.waitReady(ctx, task)
}

// closeSession closes a conversation and deletes its agent. It is not an error if the agent does not exist.
func (r *run) closeSession(ctx context.Context, session *fleet.Session, reason string) error {
	err := r.core.CloseSession(ctx, session, reason)
	if fleet.ReasonOf(err) == fleet.ReasonAgentNotFound {
		return nil
	}
	return err
}
