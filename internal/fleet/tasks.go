package fleet

import (
	"context"
	"fmt"
	"time"
)

// MaxTaskTimeout is the longest time limit of a task.
const MaxTaskTimeout = 30 * 24 * time.Hour

// StartTaskRequest describes the task to start.
type StartTaskRequest struct {
	Agent, Description string
	Timeout            time.Duration // 0 means Config.TaskTimeout
	Checks             Checks        // in addition to those of the agent's project and role
	RequestID          string        `json:"-"`
}

// StartTask gives the agent a task and does not wait; the task is running then, and the agent busy. AGENT_OFFLINE if
// the agent's workspace does not run, AGENT_BUSY if it has a task.
func (s *Service) StartTask(ctx context.Context, r StartTaskRequest) (*Task, error) {
	p, err := PrincipalFrom(ctx)
	if err != nil {
		return nil, err
	}
	if err := checkText(ReasonTaskRequired, "task_description", "the task's description", r.Description); err != nil {
		return nil, err
	}
	if r.Timeout < 0 || r.Timeout > MaxTaskTimeout {
		return nil, Invalid(ReasonInvalidArgument, "timeout_seconds", "timeout_seconds is %d: give 1 to %d", int64(r.Timeout.Seconds()), int64(MaxTaskTimeout.Seconds()))
	}
	if err := r.Checks.Valid(); err != nil {
		return nil, err
	}
	c, err := newCall(p, "StartAgentTask", r.RequestID, r.body())
	if err != nil {
		return nil, err
	}
	if t, err := s.doneTask(ctx, c); err != nil || t != nil {
		return t.asStarted(), err
	}
	v, _, err := s.agent(ctx, r.Agent)
	if err != nil {
		return nil, err
	}
	var task *Task
	err = s.store.Update(ctx, func(tx Tx) error {
		if old, err := c.done(tx); err != nil || old != nil {
			if old != nil {
				task, err = startedTask(tx, old)
			}
			return err
		}
		a, err := touch(tx, v)
		if err != nil {
			return err
		}
		if err := s.checkConfined(p, a); err != nil {
			return err
		}
		if t := s.places.of(a).Traits(); len(r.Checks.Commands) > 0 && !t.Checks {
			return Errorf(ReasonUnimplemented, "agents of the place %q cannot run checks: leave checks out, and check the work of agent %q yourself", t.Name, a.Name)
		}
		active, err := tx.ActiveTask(a.UID)
		if err != nil {
			return err
		}
		switch now := (&AgentView{Agent: *a, Task: active}); now.Status() {
		case StatusBusy:
			return agentBusy(a.Name, active)
		case StatusOffline:
			return agentOffline(a)
		}
		if err := s.places.of(a).available(); err != nil {
			return err
		}
		if err := s.cfg.Limits.admit(tx, a.Owner, more{tasks: 1}); err != nil {
			return err
		}
		now := s.now()
		task = s.newTask(p, a, r.Description, r.Timeout, now)
		if err := tx.InsertTask(task); err != nil {
			return err
		}
		if r.Checks.said() {
			if err := tx.PutChecks(task.ID, &TaskChecks{Asked: r.Checks}); err != nil {
				return err
			}
		}
		a.UpdatedAt = now
		if err := tx.UpdateAgent(a); err != nil {
			return err
		}
		if err := c.remember(tx, a.UID, task.ID, now); err != nil {
			return err
		}
		return tx.Append(task.event(EventTaskCreated, now, task.Title()))
	})
	if err != nil {
		return nil, err
	}
	return task.asStarted(), nil
}

// body returns what the request's id identifies. Without checks it is the same as before checks existed.
func (r StartTaskRequest) body() any {
	plain := struct {
		Agent, Description string
		Timeout            time.Duration
	}{r.Agent, r.Description, r.Timeout}
	if !r.Checks.said() {
		return plain
	}
	return []any{plain, r.Checks}
}

// doneTask returns the task of the same call made earlier.
func (s *Service) doneTask(ctx context.Context, c call) (t *Task, err error) {
	old, err := s.doneBefore(ctx, c)
	if err != nil || old == nil {
		return nil, err
	}
	err = s.store.View(ctx, func(tx ReadTx) (err error) {
		t, err = startedTask(tx, old)
		return err
	})
	return t, err
}

// asStarted returns the task as it was when it was started, for repeated answers to the same call.
func (t *Task) asStarted() *Task {
	if t == nil {
		return nil
	}
	c := *t
	c.Try, c.ChecksFailed = 0, false
	c.Status, c.EndedAt, c.Reason, c.Summary, c.PayloadSize, c.PayloadGap, c.CostUSD = TaskRunning, time.Time{}, "", "", 0, Gap{}, 0
	return &c
}

// event returns an event about the task. It has the task's status if the event changed it.
func (t *Task) event(typ EventType, now time.Time, text string) *Event {
	e := &Event{
		Time: now, Type: typ, AgentUID: t.AgentUID, AgentName: t.AgentName, Owner: t.Owner, TaskID: t.ID, Text: text,
	}
	if typ == EventTaskCreated || typ == EventTaskEnded {
		e.Status = string(t.Status)
	}
	return e
}

func agentBusy(name string, t *Task) *Error {
	return Errorf(ReasonAgentBusy, "agent %q already has a running task, %s (%s)", name, t.ID, t.Title()).
		Next("wait for it with {wait_tasks}, or stop it with {stop_agent_task}").With("agent_name", name).With("task_id", t.ID)
}

func agentOffline(a *Agent) *Error {
	what, next := string(a.State), "{start_agent} starts it"
	if a.State.Moving() {
		next = "{show_agent} tells when it is ready"
	}
	if a.StateReason != "" {
		what += " (" + a.StateReason + ")"
	}
	return Errorf(ReasonAgentOffline, "agent %q is offline, its workspace is %s", a.Name, what).Next(next).
		With("agent_name", a.Name).With("state", string(a.State))
}

// idle returns the error of a call about the running task of an agent without one.
func idle(v *AgentView) *Error {
	if v.Status() == StatusOffline {
		return agentOffline(&v.Agent)
	}
	return Errorf(ReasonNoRunningTask, "agent %q has no running task", v.Name).With("agent_name", v.Name).
		Next("{show_agent_task_history} shows the ones it had")
}

// StopTask stops the agent's running task and waits for its end, at most Config.CreateWait. A task that ended by itself
// before the stop took effect is returned as it ended.
func (s *Service) StopTask(ctx context.Context, ref, requestID string) (*Task, *AgentView, string, error) {
	p, err := PrincipalFrom(ctx)
	if err != nil {
		return nil, nil, "", err
	}
	c, err := newCall(p, "StopAgentTask", requestID, ref)
	if err != nil {
		return nil, nil, "", err
	}
	task, err := s.doneTask(ctx, c)
	if err != nil {
		return nil, nil, "", err
	}
	if task == nil {
		if task, err = s.askStop(ctx, c, p, ref); err != nil {
			return nil, nil, "", err
		}
	}
	v, err := s.waitFor(ctx, task.AgentUID, s.cfg.CreateWait, func(v *AgentView) bool {
		return v.Task == nil || v.Task.ID != task.ID
	})
	if err != nil {
		return nil, nil, "", err
	}
	if err := s.store.View(ctx, func(tx ReadTx) (err error) {
		task, err = startedTask(tx, &Request{TaskID: task.ID})
		return err
	}); err != nil {
		return nil, nil, "", err
	}
	switch task.Status {
	case TaskStopped:
		return task, v, "Task stopped successfully", nil
	case TaskCompleted, TaskFailed:
		return task, v, fmt.Sprintf("The task had %s by itself before the stop took effect", task.Status), nil
	}
	return task, v, "The task is being stopped and has not ended yet: show_task tells when it has", nil
}

func (s *Service) askStop(ctx context.Context, c call, p Principal, ref string) (task *Task, err error) {
	v, _, err := s.agent(ctx, ref)
	if err != nil {
		return nil, err
	}
	err = s.store.Update(ctx, func(tx Tx) error {
		if old, err := c.done(tx); err != nil || old != nil {
			if old != nil {
				task, err = startedTask(tx, old)
			}
			return err
		}
		a, err := touch(tx, v)
		if err != nil {
			return err
		}
		if task, err = tx.ActiveTask(a.UID); err != nil {
			return err
		}
		if task == nil {
			return idle(&AgentView{Agent: *a})
		}
		now := s.now()
		if err := c.remember(tx, a.UID, task.ID, now); err != nil {
			return err
		}
		if !task.StopAsked.IsZero() {
			return nil
		}
		task.StopAsked, task.StopReason = now, p.stopReason()
		if err := tx.UpdateTask(task); err != nil {
			return err
		}
		return tx.Append(task.event(EventTaskStopping, now, "stop was asked for by "+p.Name))
	})
	return task, err
}

// run returns the task as its agent gets it.
func (t *Task) run(again bool) Run {
	r := t.firstRun()
	r.Again = again
	if t.Try > 0 { // each try has a run of its own
		r.TaskID, r.SelfStarted = fmt.Sprintf("%s-%d", t.ID, t.Try+1), false
	}
	return r
}

// firstRun returns the run of the first try.
func (t *Task) firstRun() Run {
	return Run{TaskID: t.ID, Prompt: t.Description, Timeout: t.Timeout, Started: t.StartedAt, Again: true, SelfStarted: t.SelfStarted}
}
