package service

import (
	"context"
	"log/slog"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/state"
)

// CompleteByUID ends the agent's task as completed, with the agent's report. A task that has already ended is returned
// unchanged. The error is NO_RUNNING_TASK if the agent never had a task.
//
// CompleteByUID appends payload to the bytes that AppendPayload has stored. The error is LIMIT_REACHED if both together
// exceed limit bytes.
func (s *Service) CompleteByUID(ctx context.Context, uid, summary string, payload []byte, limit int) (*fleet.Task, error) {
	if len(payload) > limit {
		return nil, errPayloadTooLarge(len(payload), limit)
	}
	return s.endAtOnce(ctx, uid, limit, func(fleet.Principal) fleet.Outcome {
		return fleet.Outcome{Status: fleet.TaskCompleted, Summary: summary, Payload: payload, Reported: true}
	})
}

// StopByUID ends the agent's task as stopped. A task that has already ended is returned unchanged.
func (s *Service) StopByUID(ctx context.Context, uid string) (*fleet.Task, error) {
	return s.endAtOnce(ctx, uid, 0, func(p fleet.Principal) fleet.Outcome {
		return fleet.Outcome{Status: fleet.TaskStopped, Reason: stopReason(p)}
	})
}

// endAtOnce ends the agent's task in the store, without waiting for its run. Before it returns, it tries to interrupt the run, so that
// the run begins no further work. Work that the run has begun, for example a request to its model, may still go on. The reconciler
// ensures that it ends. limit is the maximum size of the task's payload in bytes, or 0.
func (s *Service) endAtOnce(ctx context.Context, uid string, limit int, outcome func(fleet.Principal) fleet.Outcome) (task *fleet.Task, err error) {
	var a *fleet.Agent
	ended := false
	err = s.updateAs(ctx, func(tx fleet.Tx, p fleet.Principal) error {
		v, err := changeableAgent(tx, p, uid)
		if err != nil {
			return err
		}
		a, task = &v.Agent, v.Task
		if ended = task != nil; ended {
			o := outcome(p)
			if size := task.PayloadSize + len(o.Payload); limit > 0 && size > limit {
				return errPayloadTooLarge(size, limit)
			}
			return state.EndTask(tx, a, task, o, s.now(), nil)
		}
		last, err := tx.LastTasks([]string{uid})
		if err == nil && len(last) == 0 {
			err = fleet.Errorf(fleet.ReasonNoRunningTask, "agent %q has no task", uid).With("agent_name", uid)
		}
		if err == nil {
			task = last[0]
		}
		return err
	})
	if err != nil || !ended || task.DispatchedAt.IsZero() {
		return task, err
	}
	s.interruptEndedRun(ctx, a, task)
	return task, nil
}

// interruptTimeout limits how long endAtOnce waits until the run's host has received the interrupt.
const interruptTimeout = 2 * time.Second

// interruptEndedRun interrupts the run of an ended task. It only logs a failure, because the reconciler ends the run in any
// case.
func (s *Service) interruptEndedRun(ctx context.Context, a *fleet.Agent, t *fleet.Task) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), interruptTimeout)
	defer cancel()
	if err := s.interrupts.Send(ctx, a, t); err != nil {
		s.log.WarnContext(ctx, "run not told that its task has ended", slog.String("task", t.ID), slog.Any("error", err))
	}
}

// maxCheckOutput is the longest output of a check that AgentsByUID returns, in bytes.
const maxCheckOutput = 500

// shortenCheckOutputs shortens the outputs of the checks to their last maxCheckOutput bytes.
func shortenCheckOutputs(c *fleet.TaskChecks) {
	if c == nil {
		return
	}
	for i := range c.Results {
		if r := &c.Results[i]; len(r.Output) > maxCheckOutput {
			r.Output, r.Truncated = lastBytes(r.Output, maxCheckOutput), true
		}
	}
}

// RemoveAgent requests the deletion of the agent, its workspace and its run, without waiting. It succeeds if the agent is
// deleted already.
func (s *Service) RemoveAgent(ctx context.Context, uid string) error {
	return s.removeAgentIf(ctx, uid, func(*fleet.AgentView) bool { return true })
}

// RemoveUnusedAgent does the same as RemoveAgent, unless the agent has a task or has changed since it was read as v.
func (s *Service) RemoveUnusedAgent(ctx context.Context, v *fleet.AgentView) error {
	return s.removeAgentIf(ctx, v.UID, func(current *fleet.AgentView) bool {
		return current.Task == nil && current.UpdatedAt.Equal(v.UpdatedAt)
	})
}

// removeAgentIf does the work of RemoveAgent if condition returns true for the agent as the transaction reads it.
func (s *Service) removeAgentIf(ctx context.Context, uid string, condition func(*fleet.AgentView) bool) error {
	return s.updateAs(ctx, func(tx fleet.Tx, p fleet.Principal) error {
		v, err := changeableAgent(tx, p, uid)
		if err != nil || !condition(v) {
			return err
		}
		return s.requestDeletion(tx, &v.Agent, "deletion requested")
	})
}

// AgentsByUID returns the agents with the uids, in the same order, each with its newest task. It includes deleted agents,
// whose configuration may be missing. An agent is nil if it does not exist or if the caller may not change it. previews are
// the ends of the outputs of the agents' active tasks, in the same order, at most 4 KiB each.
func (s *Service) AgentsByUID(ctx context.Context, uids []string) (views []*fleet.AgentView, previews []string, err error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, nil, err
	}
	if err := s.snap.RefreshAgents(ctx, uids...); err != nil {
		return nil, nil, err
	}
	found := make(map[string]*fleet.AgentView, len(uids))
	var uncached []string // the agents to read from the store
	inMemory := true      // the response does not need the store
	for _, uid := range uids {
		v := s.snap.Get(uid)
		if v == nil || v.Task == nil {
			if v = s.endedAgents.get(uid); v != nil && s.payloadExpired(v.Task) {
				v = nil
			}
		}
		if v == nil {
			uncached = append(uncached, uid)
		}
		inMemory = inMemory && v != nil && (v.Task == nil || !v.Task.Active())
		found[uid] = v
	}
	views, previews = make([]*fleet.AgentView, len(uids)), make([]string, len(uids))
	fill := func(tx fleet.ReadTx) error {
		for i, uid := range uids {
			v := found[uid]
			if v == nil || !p.MayChange(&v.Agent) {
				continue
			}
			views[i] = v
			if v.Task == nil || !v.Task.Active() {
				continue
			}
			var err error
			if previews[i], err = preview(tx, v.Task.ID); err != nil {
				return err
			}
		}
		return nil
	}
	if inMemory {
		return views, previews, fill(nil)
	}
	l := s.endedAgents.begin(uncached)
	defer s.endedAgents.end(l)
	err = s.store.View(ctx, func(tx fleet.ReadTx) error {
		if err := s.loadEndedAgents(tx, l, found); err != nil {
			return err
		}
		return fill(tx)
	})
	return views, previews, err
}

// loadEndedAgents reads the agents of the load, each with its newest task. It adds them to found, and passes those with a task to
// endedAgents.put.
func (s *Service) loadEndedAgents(tx fleet.ReadTx, l *agentLoad, found map[string]*fleet.AgentView) error {
	if len(l.uids) == 0 {
		return nil
	}
	agents, err := tx.AgentViews(fleet.AgentViewFilter{UIDs: l.uids})
	if err != nil {
		return err
	}
	tasks, err := tx.LastTasks(l.uids)
	if err != nil {
		return err
	}
	for _, v := range agents {
		found[v.UID] = v
	}
	for _, t := range tasks {
		if v := found[t.AgentUID]; v != nil {
			v.Task = t
			if !t.Active() {
				if v.Checks, err = tx.Checks(t.ID); err != nil {
					return err
				}
				shortenCheckOutputs(v.Checks)
			}
			s.endedAgents.put(l, v)
		}
	}
	return nil
}

// AgentByUID returns the agent with the uid if the caller may change it, even if it was deleted. Otherwise the error is
// AGENT_NOT_FOUND.
func (s *Service) AgentByUID(ctx context.Context, uid string) (*fleet.Agent, error) {
	v, err := viewAs(ctx, s.store, func(tx fleet.ReadTx, p fleet.Principal) (*fleet.AgentView, error) { return changeableAgent(tx, p, uid) })
	if err != nil {
		return nil, err
	}
	return &v.Agent, nil
}

// TasksByUID returns the newest tasks of an agent that the caller may change, newest first, at most limit.
func (s *Service) TasksByUID(ctx context.Context, uid string, limit int) ([]*fleet.Task, error) {
	return viewAs(ctx, s.store, func(tx fleet.ReadTx, p fleet.Principal) ([]*fleet.Task, error) {
		if _, err := changeableAgent(tx, p, uid); err != nil {
			return nil, err
		}
		tasks, _, err := tx.Tasks(uid, limit, 0)
		return tasks, err
	})
}

// AwaitTaskReady waits until the workspace of the task's agent runs or the task has ended, at most d. It returns the agent
// as it is then, and whether one of the two is the case.
func (s *Service) AwaitTaskReady(ctx context.Context, t *fleet.Task, d time.Duration) (*fleet.AgentView, bool, error) {
	ready := func(v *fleet.AgentView) bool {
		return v.State == fleet.StateRunning || v.Task == nil || v.Task.ID != t.ID
	}
	v, err := s.waitForAgent(ctx, t.AgentUID, d, ready)
	return v, err == nil && ready(v), err
}

// changeableAgent returns the agent with the uid and its active task, if p may change the agent. The agent may be deleted.
func changeableAgent(tx fleet.ReadTx, p fleet.Principal, uid string) (*fleet.AgentView, error) {
	v, err := state.ReadAgentView(tx, uid)
	if err != nil {
		return nil, err
	}
	if v == nil || !p.MayChange(&v.Agent) {
		return nil, fleet.Errorf(fleet.ReasonAgentNotFound, "agent %q not found", fleet.Shorten(uid, 60)).With("agent_id", fleet.Shorten(uid, 60))
	}
	return v, nil
}
