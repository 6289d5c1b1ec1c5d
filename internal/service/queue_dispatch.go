package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/queue"
	"fleet/internal/state"
)

// dispatchRetryDelay is how long Dispatch waits before it tries again to start a task, or to apply the pools of the configuration.
const dispatchRetryDelay = 5 * time.Second

// placeQueries limits how long one call of Dispatch asks places, and records which places were slow.
type placeQueries struct {
	deadline time.Time       // when the time for asking places is over
	slow     map[string]bool // names, in lower case, of places that have not answered in time; of the project if its reference names no place
	skipped  bool            // some places were not asked
}

// errNotAsked is the cause of the error of askPlaces if it has not called ask.
var errNotAsked = errors.New("places have not answered earlier calls in time")

// askPlaces calls ask, which asks places about the project with the reference. ask may take two thirds of the time that this call of
// Dispatch has left for asking places. So tasks still start at other places if one does not answer. The error is BACKEND_UNAVAILABLE if
// the limit has passed. If the place has not answered in time before in this call of Dispatch, or no time is left, askPlaces does not call
// ask, and the cause of the error is errNotAsked.
func (s *Service) askPlaces(ctx context.Context, project string, ask func(context.Context) error) error {
	if project == "" { // then ask reads only the store
		return ask(ctx)
	}
	place, _, named := strings.Cut(strings.ToLower(project), "/")
	if !named && len(s.places.Fleet) == 1 {
		place = strings.ToLower(s.places.Fleet[0].Name)
	}
	limit := min(s.cfg.CallTimeout, time.Until(s.placeQueries.deadline)*2/3)
	if limit <= 0 || s.placeQueries.slow[place] {
		s.placeQueries.skipped = true
		return fleet.Errorf(fleet.ReasonBackendUnavailable, "the place of the project does not answer in time").WithCause(errNotAsked)
	}
	timeoutCtx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := ask(timeoutCtx)
	if timeoutCtx.Err() == nil || ctx.Err() != nil {
		return err
	}
	s.placeQueries.slow[place] = true
	if err != nil {
		err = fleet.Errorf(fleet.ReasonBackendUnavailable, "the place of the project did not answer within %s", limit.Round(time.Millisecond)).WithCause(err)
	}
	return err
}

// Prepare reads the queue and the agents, so that Dispatch reads only what has changed since.
func (s *Service) Prepare(ctx context.Context) error {
	if err := s.queue.Refresh(ctx); err != nil {
		return err
	}
	return s.snap.Refresh(ctx)
}

// Dispatch queues the tasks of schedules that are due, starts the pending tasks that can start, and ends those that never can. It also
// creates and deletes agents of pools. It returns the time at which it should be called again even if nothing happens; zero if that is
// not necessary. Only one caller in the fleet may call it at a time. It fails if the store does not answer for as long as a lease lasts.
func (s *Service) Dispatch(ctx context.Context) (next time.Time, err error) {
	s.placeQueries = placeQueries{slow: map[string]bool{}, deadline: time.Now().Add(s.cfg.LeaseTTL * 9 / 10)} // the rest is for starting tasks
	ctx, storeAnswered, stop := withStallLimit(ctx, s.cfg.LeaseTTL)
	defer stop()
	s.storeAnswered = storeAnswered
	if next, err = s.dispatchIfChanged(ctx); err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return next, err
}

// updateForDispatch works like fleet.Store.Update, and gives Dispatch more time if the store answers. Only Dispatch uses it.
func (s *Service) updateForDispatch(ctx context.Context, fn func(fleet.Tx) error) error {
	err := s.store.Update(ctx, fn)
	if ctx.Err() == nil {
		s.storeAnswered()
	}
	return err
}

// dispatchIfChanged does the work of Dispatch if something has happened since the last decision, or is due.
func (s *Service) dispatchIfChanged(ctx context.Context) (next time.Time, err error) {
	if err := s.queue.Refresh(ctx); err != nil {
		return time.Time{}, err
	}
	revision, last := s.queue.Revision(), s.lastDispatch.Load()
	if last.revision == revision && (last.next.IsZero() || s.now().Before(last.next)) {
		return last.next, nil
	}
	next, err = s.dispatch(ctx)
	if err == nil {
		s.lastDispatch.CompareAndSwap(last, &dispatchState{revision, next}) // unless settings have changed meanwhile
	}
	return next, err
}

// dispatchState has the revision for which Dispatch has decided last, and the time at which it must decide again even if
// nothing happens.
type dispatchState struct {
	revision int64     // see state.Queue.Revision
	next     time.Time // zero if only a new revision requires a decision
}

// forceDispatch makes the next Dispatch decide even if nothing has happened.
func (s *Service) forceDispatch() { s.lastDispatch.Store(&dispatchState{revision: -1}) }

// dispatch does the work of Dispatch, even if nothing has happened since the last decision.
func (s *Service) dispatch(ctx context.Context) (next time.Time, err error) {
	if err := s.applyPools(ctx); err != nil {
		return time.Time{}, err
	}
	if err := s.settleCreations(ctx); err != nil {
		return time.Time{}, err
	}
	tick, err := s.queueDueSchedules(ctx)
	if err != nil {
		return time.Time{}, err
	}
	next = tick
	refusals := map[startKey]error{}
	for round := range maxRounds {
		d, err := s.queueDecision(ctx, queue.NoWaits, refusals)
		if err != nil {
			return time.Time{}, err
		}
		if round == 0 {
			if err := s.adjustPools(ctx, d); err != nil {
				return time.Time{}, err
			}
		}
		next = sooner(next, d.ChangesAt)
		for _, q := range d.Order {
			if why, ends := d.End[q.ID]; ends {
				if err := s.endPending(ctx, q, why); err != nil {
					return time.Time{}, err
				}
			}
		}
		retry, again, err := s.startDecidedTasks(ctx, d.Start, refusals)
		if err != nil {
			return time.Time{}, err
		}
		next = sooner(next, retry)
		if !again {
			break
		}
	}
	if s.poolSettings.Load() != nil || s.placeQueries.skipped {
		next = sooner(next, s.now().Add(dispatchRetryDelay))
	}
	return next, nil
}

// sooner returns the earlier of two times. A zero time means never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// maxRounds is how often Dispatch decides while starts are refused. Each further decision lets other tasks overtake the refused ones.
const maxRounds = 10

// startDecidedTasks starts the tasks, and adds the starts that fail to refusals. retry is when to try these again; zero if there are none.
// again reports whether one was refused for a reason that the decision has not considered, so that another decision may start other
// tasks.
func (s *Service) startDecidedTasks(ctx context.Context, starts []queue.Start, refusals map[startKey]error) (retry time.Time, again bool, err error) {
	for _, start := range starts { // each takes milliseconds, unless something else has locked the agent
		timeoutCtx, cancel := context.WithTimeout(ctx, s.cfg.StartLimit)
		err := s.startPending(timeoutCtx, start.Task, start.Agent.UID)
		timedOut := timeoutCtx.Err() != nil && ctx.Err() == nil
		cancel()
		wait := s.cfg.StartLimit
		switch reason := fleet.ReasonOf(err); {
		case err == nil:
			continue
		case timedOut: // another server has locked the agent, and may be dead; tasks of other agents must not wait for it
			s.log.WarnContext(ctx, "a task of the queue did not start in time, trying again", slog.String("task", start.Task.ID), slog.String("agent", start.Agent.UID))
		case reason == fleet.ReasonInternal || reason == fleet.ReasonBackendUnavailable || ctx.Err() != nil:
			return time.Time{}, false, err
		default: // the fleet has changed since the decision, or a limit was reached that the decision does not consider
			s.log.DebugContext(ctx, "a task of the queue did not start", slog.String("task", start.Task.ID), slog.Any("error", err))
			wait, again = dispatchRetryDelay, true
		}
		refusals[startKey{start.Task.ID, start.Agent.UID}] = err
		retry = sooner(retry, s.now().Add(wait))
	}
	return retry, again, nil
}

// startPending starts a pending task on the agent. decided is the task as it was at the decision. startPending does nothing if the task no
// longer waits to be started, or its conditions have changed: the event of the change leads to another decision. Otherwise the error says
// why the agent cannot start the task now.
func (s *Service) startPending(ctx context.Context, decided *fleet.QueuedTask, agentUID string) error {
	delay := time.Duration(-1) // time since the agent became free, if the task has waited for that
	err := s.updateForDispatch(ctx, func(tx fleet.Tx) error {
		delay = -1
		found, err := pendingAsDecided(tx, decided)
		if err != nil || found == nil || found.OpenQuestions > 0 || found.Delegation.Waits && !found.Delegation.Ready {
			return err
		}
		p, t := queuedBy(found), &found.Task
		v, err := state.ReadAgentView(tx, agentUID)
		if err == nil {
			err = s.checkStart(ctx, tx, p, found, v)
		}
		if err != nil {
			return err
		}
		results := ""
		if t.Try == 0 { // later, the description has them
			if results, err = dependencyResults(tx, found.Entry.Dependencies); err != nil {
				return err
			}
		}
		now := s.now()
		if v.UpdatedAt.After(t.CreatedAt) {
			delay = now.Sub(v.UpdatedAt)
		}
		if t.AgentUID == "" {
			t.AgentUID, t.AgentName, t.Labels = v.UID, v.Name, v.Labels.With(t.Labels)
		}
		if err := s.setConversation(tx, found, &v.Agent); err != nil {
			return err
		}
		t.Status, t.StartedAt, t.Description = fleet.TaskRunning, now, t.Description+results
		t.Delegation.Waits, t.Delegation.Ready = false, false
		if err := s.reserveCost(tx, &v.Agent, t); err != nil {
			return err
		}
		if err := tx.Update(t); err != nil {
			return err
		}
		v.UpdatedAt = now
		if err := tx.Update(&v.Agent); err != nil {
			return err
		}
		e := t.Event(fleet.EventTaskAssigned, now, fmt.Sprintf("it has waited %s", now.Sub(t.CreatedAt).Round(time.Millisecond)))
		e.Status = string(t.Status)
		return tx.Append(e)
	})
	if err == nil && delay >= 0 {
		s.cfg.OnTaskStarted(delay)
	}
	return err
}

// checkStart returns why the pending task that p has queued cannot start on the agent; nil if it can. v is nil if the agent does not
// exist.
func (s *Service) checkStart(ctx context.Context, tx fleet.ReadTx, p fleet.Principal, q *fleet.QueuedTask, v *fleet.AgentView) error {
	switch t := &q.Task; {
	case v == nil || t.AgentUID != "" && t.AgentUID != v.UID || t.AgentUID == "" && !q.Entry.Target.Takes(t.Owner, &v.Agent) || !v.DeletedAt.IsZero() || v.Desired == fleet.DesiredDeleted:
		return fleet.AgentNotFound(t.AgentName)
	case v.Status() == fleet.StatusBusy:
		return errAgentBusy(v.Name, v.Task)
	case v.Status() == fleet.StatusOffline:
		return errAgentOffline(v)
	}
	if v.OneTask && q.AgentUID == "" {
		if other, err := pendingTask(tx, v.UID); err != nil || other != nil {
			if other != nil {
				err = fleet.Errorf(fleet.ReasonAgentBusy, "agent %q is reserved for %s, which goes on later", v.Name, other.Ref())
			}
			return err
		}
	}
	if err := s.checkAgentUse(q, &v.Agent); err != nil {
		return err
	}
	if err := checkTreeRoom(tx, &q.Task); err != nil {
		return err
	}
	return admit(ctx, s.Limits(), tx, p, v.Owner, increase{tasks: 1, project: v.Project})
}

// pendingTask returns a pending task that must start on the agent; nil if there is none.
func pendingTask(tx fleet.ReadTx, agentUID string) (*fleet.Task, error) {
	found, err := tx.FindTasks(fleet.TaskFilter{AgentUID: agentUID, Status: fleet.TaskPending}, fleet.TaskWindow{Limit: 1})
	return fleet.First(found.Tasks, err)
}

// checkTreeRoom returns DELEGATION_REFUSED if as many tasks below the root of the task run as may run at once. It does not check a
// task that goes on after it waited for delegated tasks.
func checkTreeRoom(tx fleet.ReadTx, t *fleet.Task) error {
	if t.RootID == "" || t.Delegation.MaxRunning == 0 || t.Delegation.Waits {
		return nil
	}
	if _, err := tx.Task(t.RootID); err != nil { // locks the tree
		return err
	}
	found, err := tx.FindTasks(fleet.TaskFilter{RootID: t.RootID, Status: fleet.TaskRunning}, fleet.TaskWindow{Limit: t.Delegation.MaxRunning + 1})
	running := slices.DeleteFunc(found.Tasks, func(o *fleet.Task) bool { return o.RootID == "" })
	if err == nil && len(running) >= t.Delegation.MaxRunning {
		err = fleet.DelegationRefused("max_running", len(running), t.Delegation.MaxRunning, "%d delegated tasks of the tree run, as many as may run at once", len(running))
	}
	return err
}

// setConversation sets the agent's conversation to the one in which the task runs: that of its last run, that of the earlier task that it
// goes on with, or a new one. Other tasks may have had the agent meanwhile, with conversations of their own. A task that is for no pool
// begins in the agent's last conversation.
func (s *Service) setConversation(tx fleet.ReadTx, q *fleet.QueuedTask, a *fleet.Agent) error {
	d := &q.Delegation
	if q.Entry.Target.Pool != "" && d.Conversation == "" {
		if id := s.continuedTask(q, a); id == "" || q.Try > 0 {
			a.HasConversation, a.SessionID, a.Conversation, d.Conversation = false, "", q.ID, q.ID
		} else if earlier, err := tx.Task(id); err != nil {
			return err
		} else if earlier != nil {
			d.Conversation = earlier.Delegation.Conversation
		}
	}
	if d.Conversation != a.Conversation && (d.Conversation != "" || q.Try > 0) {
		a.HasConversation, a.SessionID, a.Conversation = d.Conversation != "", "", d.Conversation
	}
	d.Conversation = a.Conversation
	return nil
}

// continuedTask returns the id of the earlier task whose conversation on the agent the task goes on with, because it depends on that
// task; "" if there is none.
func (s *Service) continuedTask(q *fleet.QueuedTask, a *fleet.Agent) string {
	for _, p := range s.queue.Pools() {
		if p.Name == a.Pool && p.Owner == a.Owner && p.Reuse != fleet.ReuseSame {
			return ""
		}
	}
	for _, dep := range q.Entry.Dependencies {
		if s.queue.Dependee(dep.TaskID).AgentUID == a.UID {
			return dep.TaskID
		}
	}
	return ""
}

// dependencyResults returns the reports of the dependencies that have Result set, as an addition to a prompt. Each line begins
// with #, so that a shell, which runs some prompts, treats it as a comment.
func dependencyResults(tx fleet.ReadTx, dependencies []fleet.Dependency) (string, error) {
	var b strings.Builder
	for _, dep := range dependencies {
		if !dep.Result {
			continue
		}
		t, err := tx.Task(dep.TaskID)
		if err != nil {
			return "", err
		}
		if t == nil { // it was deleted in the meantime
			continue
		}
		c, err := tx.Changes(dep.TaskID)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "\n\n# Result of the earlier task %q of agent %s, which is %s:", t.Title(), t.AgentName, t.Status)
		if c != nil && c.Branch != "" {
			fmt.Fprintf(&b, "\n# its work is on the branch %s", c.Branch)
		}
		for text := range strings.FieldsFuncSeq(t.Headline(), func(r rune) bool { return r == '\n' || r == '\r' }) {
			b.WriteString("\n# " + text)
		}
	}
	return b.String(), nil
}

// pendingAsDecided reads the task again. It returns nil if the task is no longer pending, or its conditions are not those of the decision.
func pendingAsDecided(tx fleet.ReadTx, decided *fleet.QueuedTask) (*fleet.QueuedTask, error) {
	q, err := fleet.First(tx.Queue(fleet.QueueFilter{TaskIDs: []string{decided.ID}}))
	if err != nil || q == nil || q.Status != fleet.TaskPending || !q.Entry.SameConditions(&decided.Entry) {
		return nil, err
	}
	return q, nil
}

// endPending ends a pending task as stopped, for the reason. It does nothing if the task is no longer pending, or its conditions have
// changed.
func (s *Service) endPending(ctx context.Context, decided *fleet.QueuedTask, why string) error {
	return s.updateForDispatch(ctx, func(tx fleet.Tx) error {
		found, err := pendingAsDecided(tx, decided)
		if err != nil || found == nil {
			return err
		}
		return state.StopPending(tx, &found.Task, why, s.now())
	})
}
