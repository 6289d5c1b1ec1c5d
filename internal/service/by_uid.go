package service

import (
	"context"
	"strings"
	"time"

	"fleet/internal/fleet"
)

// maxBriefOutput is the longest output of a check that AgentsByUID returns, in bytes.
const maxBriefOutput = 500

// shortenOutputs shortens the outputs to their ends.
func shortenOutputs(c *fleet.TaskChecks) {
	if c == nil {
		return
	}
	for i := range c.Results {
		if r := &c.Results[i]; len(r.Output) > maxBriefOutput {
			r.Output, r.Truncated = strings.ToValidUTF8(r.Output[len(r.Output)-maxBriefOutput:], ""), true
		}
	}
}

// Remove requests the deletion of the agent, its workspace and its run, without waiting. A deleted agent is not an
// error.
func (s *Service) Remove(ctx context.Context, uid string) error {
	return s.remove(ctx, uid, func(*fleet.AgentView) bool { return true })
}

// RemoveUnused does the same as Remove, unless the agent has a task or has changed since it was read as v.
func (s *Service) RemoveUnused(ctx context.Context, v *fleet.AgentView) error {
	return s.remove(ctx, v.UID, func(now *fleet.AgentView) bool { return now.Task == nil && now.UpdatedAt.Equal(v.UpdatedAt) })
}

func (s *Service) remove(ctx context.Context, uid string, may func(*fleet.AgentView) bool) error {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return err
	}
	return s.store.Update(ctx, func(tx fleet.Tx) error {
		v, err := ownAgent(tx, p, uid)
		if err != nil || v.Desired == fleet.DesiredDeleted || !v.DeletedAt.IsZero() || !may(v) {
			return err
		}
		a := &v.Agent
		a.Desired, a.Attempts, a.RetryAt, a.UpdatedAt = fleet.DesiredDeleted, 0, time.Time{}, s.now()
		if err := tx.UpdateAgent(a); err != nil {
			return err
		}
		return tx.Append(a.Event(fleet.EventAgentChanged, a.UpdatedAt, "deletion requested"))
	})
}

// AgentsByUID returns the agents with the uids, in the same order, each with its newest task. It includes deleted agents,
// whose configuration may be missing. An agent is nil if it does not exist or belongs to another owner. previews are the
// ends of the outputs of running tasks, at most 4 KiB each.
func (s *Service) AgentsByUID(ctx context.Context, uids []string) (views []*fleet.AgentView, previews []string, err error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, nil, err
	}
	if err := s.snap.RefreshAgents(ctx, uids...); err != nil {
		return nil, nil, err
	}
	found := make(map[string]*fleet.AgentView, len(uids))
	var others []string
	inMemory := true // the response does not need the store
	for _, uid := range uids {
		v := s.snap.Get(uid)
		if v == nil || v.Task == nil {
			if v = s.ended.get(uid); v != nil && s.payloadExpires(v.Task) {
				v = nil
			}
		}
		if v == nil {
			others = append(others, uid)
		}
		inMemory = inMemory && v != nil && (v.Task == nil || !v.Task.Active())
		found[uid] = v
	}
	views, previews = make([]*fleet.AgentView, len(uids)), make([]string, len(uids))
	fill := func(tx fleet.ReadTx) error {
		for i, uid := range uids {
			v := found[uid]
			if v == nil || !p.MayTouch(&v.Agent) {
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
	l := s.ended.begin(others)
	defer s.ended.end(l)
	err = s.store.View(ctx, func(tx fleet.ReadTx) error {
		if err := s.loadEnded(tx, l, found); err != nil {
			return err
		}
		return fill(tx)
	})
	return views, previews, err
}

// payloadExpires reports whether the retention period of the task's payload is over. The payload may still be in the store.
func (s *Service) payloadExpires(t *fleet.Task) bool {
	return t.PayloadSize > 0 && s.cfg.PayloadRetention >= 0 && t.EndedAt.Add(s.cfg.PayloadRetention).Before(s.now())
}

// loadEnded reads the agents of the load, each with its newest task, adds them to found, and caches those that can no longer
// change.
func (s *Service) loadEnded(tx fleet.ReadTx, l *load, found map[string]*fleet.AgentView) error {
	if len(l.uids) == 0 {
		return nil
	}
	agents, err := tx.AgentViews(l.uids)
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
				shortenOutputs(v.Checks)
			}
			s.ended.put(l, v)
		}
	}
	return nil
}

// AgentByUID returns the agent with the uid if the caller may change it, even if it was deleted. Otherwise the error is
// AGENT_NOT_FOUND.
func (s *Service) AgentByUID(ctx context.Context, uid string) (a *fleet.Agent, err error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, err
	}
	err = s.store.View(ctx, func(tx fleet.ReadTx) error {
		v, err := ownAgent(tx, p, uid)
		if err == nil {
			a = &v.Agent
		}
		return err
	})
	return a, err
}

// TasksByUID returns the newest tasks of an agent that the caller may change, newest first, at most limit.
func (s *Service) TasksByUID(ctx context.Context, uid string, limit int) (tasks []*fleet.Task, err error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, err
	}
	err = s.store.View(ctx, func(tx fleet.ReadTx) error {
		if _, err := ownAgent(tx, p, uid); err != nil {
			return err
		}
		tasks, _, err = tx.Tasks(uid, limit, 0)
		return err
	})
	return tasks, err
}

// AwaitTaskReady waits until the workspace of the task's agent runs or the task has ended, at most d. It returns the
// agent's current state, and whether the condition was met.
func (s *Service) AwaitTaskReady(ctx context.Context, t *fleet.Task, d time.Duration) (*fleet.AgentView, bool, error) {
	ready := func(v *fleet.AgentView) bool {
		return v.State == fleet.StateRunning || v.Task == nil || v.Task.ID != t.ID
	}
	v, err := s.waitFor(ctx, t.AgentUID, d, ready)
	return v, err == nil && ready(v), err
}
