package fleet

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// LaunchRequest describes an agent of another toolset than the fleet's own, with its first task.
type LaunchRequest struct {
	Method  string // of the API, for the request id
	Toolset Toolset
	// Backend hosts the agent, "" the one of the fleet. With a Recipe it must have the recipe's driver among its Traits;
	// without one, Project and Role say how the agent is made.
	Backend       string
	Project, Role string
	Spec          string
	Recipe        *Recipe
	// UID is the agent's id, for one that must know its own; empty: a new one.
	UID string
	// Name is the beginning of the agent's name in events; empty: its id.
	Name    string
	OneTask bool // the agent goes when its task has ended

	Prompt    string // of the first task; empty: there is none yet
	Timeout   time.Duration
	SessionID string // of the first task
	RequestID string `json:"-"`
	// Body is what the request id stands for; nil: the request as it is here.
	Body any `json:"-"`
	// Also is done in the same transaction: what the toolset keeps beside the agent. nil: nothing.
	Also func(tx Tx, a *Agent, t *Task) error `json:"-"`

	selfStarted bool // the agent begins to work on its spec by itself
}

// Launch makes an agent and hands it its first task, in one transaction, and returns at once: the task counts as running,
// though the agent gets it only when it is ready. The same request again returns what it made.
func (s *Service) Launch(ctx context.Context, r LaunchRequest) (*AgentView, error) {
	p, err := PrincipalFrom(ctx)
	if err != nil {
		return nil, err
	}
	if r.Prompt != "" {
		if err := checkText(ReasonTaskRequired, "prompt", "the prompt", r.Prompt); err != nil {
			return nil, err
		}
	}
	if r.Body == nil {
		r.Body = r
	}
	c, err := newCall(p, r.Method, r.RequestID, r.Body)
	if err != nil {
		return nil, err
	}
	if r.UID == "" {
		r.UID = s.cfg.NewID()
	}
	if err := s.launchable(ctx, &r); err != nil {
		return nil, err
	}
	var v *AgentView
	err = s.store.Update(ctx, func(tx Tx) error {
		if old, err := c.done(tx); err != nil || old != nil {
			if old != nil {
				v, err = launched(tx, old)
			}
			return err
		}
		wanted := more{agents: 1}
		if r.Prompt != "" || r.selfStarted {
			wanted.tasks = 1
		}
		if err := s.cfg.Limits.admit(tx, p.Name, wanted); err != nil {
			return err
		}
		now := s.now()
		a := &Agent{
			UID: r.UID, Name: launchName(r), Owner: p.Name, Toolset: r.Toolset, Backend: r.Backend, Project: r.Project,
			Role: r.Role, Spec: r.Spec, Recipe: r.Recipe, OneTask: r.OneTask,
			State: StatePending, Desired: DesiredRunning, CreatedAt: now, UpdatedAt: now,
		}
		prompt := r.Prompt
		if r.selfStarted { // then one text is both
			prompt = joinTexts(r.Spec, r.Prompt)
			a.Spec = prompt
		}
		if err := s.checkConfined(p, a); err != nil {
			return err
		}
		if err := tx.InsertAgent(a); err != nil {
			return err
		}
		if err := tx.Append(a.event(EventAgentCreated, now, fmt.Sprintf("agent created for %s", r.Toolset))); err != nil {
			return err
		}
		v = &AgentView{Agent: *a}
		if prompt != "" {
			v.Task = s.newTask(p, a, prompt, r.Timeout, now)
			v.Task.SessionID, v.Task.SelfStarted = r.SessionID, r.selfStarted
			if err := tx.InsertTask(v.Task); err != nil {
				return err
			}
			if err := tx.Append(v.Task.event(EventTaskCreated, now, v.Task.Title())); err != nil {
				return err
			}
		}
		if r.Also != nil {
			if err := r.Also(tx, a, v.Task); err != nil {
				return err
			}
		}
		return c.remember(tx, a.UID, taskID(v.Task), now)
	})
	return v, err
}

// launchable checks that there is what the request wants the agent to be made of.
func (s *Service) launchable(ctx context.Context, r *LaunchRequest) error {
	t, ok := s.TraitsOf(r.Backend)
	switch {
	case !ok:
		return Invalid(ReasonInvalidArgument, "backend", "there is no backend %q: there are %s", r.Backend, list(s.Hosts()))
	case r.Recipe != nil && r.Recipe.Driver != "" && !slices.Contains(t.Drivers, r.Recipe.Driver):
		return Invalid(ReasonInvalidArgument, "driver", "the backend %s has no driver %q: it has %s", t.Name, r.Recipe.Driver, list(t.Drivers))
	case r.Recipe != nil && r.Recipe.Driver != "":
		return s.placeable(ctx, r)
	}
	host := s.catalog
	if r.Backend != "" {
		host = s.catalogs[r.Backend]
	}
	project, err := host.project(ctx, r.Project)
	if err != nil {
		return asInvalid(err, "project")
	}
	role, err := host.role(ctx, project.Name, r.Role)
	if err != nil {
		return asInvalid(err, "role")
	}
	r.Project, r.Role, r.selfStarted = project.Name, role.Name, project.SpecIsTask
	return nil
}

// placeable checks that there is the project that the recipe's agent is to work in, and names it as its backend does.
func (s *Service) placeable(ctx context.Context, r *LaunchRequest) error {
	if r.Recipe.Place == "" {
		return nil
	}
	place := s.catalogs[r.Recipe.Place]
	if place == nil {
		return Errorf(ReasonBackendUnavailable, "this server has no backend %q, whose projects agents can work in", r.Recipe.Place)
	}
	project, err := place.project(ctx, r.Project)
	r.Project = project.Name
	return asInvalid(err, "project")
}

// joinTexts is one text of those that are not empty.
func joinTexts(texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, isBlank), "\n\n")
}

// launched is what a request made, as it is now.
func launched(tx ReadTx, old *Request) (*AgentView, error) {
	a, err := tx.Agent(old.AgentUID)
	if err != nil || a == nil {
		return nil, err
	}
	v := &AgentView{Agent: *a}
	if old.TaskID != "" {
		v.Task, err = startedTask(tx, old)
	}
	return v, err
}

// launchName is a name for events that no other agent has. The name of an agent that a project makes names its workspace
// too, so it is one that a person could have chosen.
func launchName(r LaunchRequest) string {
	id := strings.ReplaceAll(r.UID, "-", "")
	if r.Recipe == nil || r.Recipe.Driver == "" {
		const tail = 12
		plain := strings.Join(strings.FieldsFunc(r.Name, func(c rune) bool { return !namePattern.MatchString(string(c)) }), "-")
		if plain = strings.Trim(plain[:min(len(plain), MaxNameLength-tail-1)], "-"); plain != "" {
			return plain + "-" + id[:min(len(id), tail)]
		}
		return id[:min(len(id), MaxNameLength)]
	}
	if r.Name == "" {
		return r.UID
	}
	return r.Name + "-" + id[:min(len(id), 12)]
}

func taskID(t *Task) string {
	if t == nil {
		return ""
	}
	return t.ID
}

// newTask is a running task of the agent.
func (s *Service) newTask(p Principal, a *Agent, prompt string, timeout time.Duration, now time.Time) *Task {
	if timeout == 0 {
		timeout = s.cfg.TaskTimeout
	}
	return &Task{
		ID: s.cfg.NewID(), AgentUID: a.UID, AgentName: a.Name, Owner: a.Owner, Description: prompt, Source: p.Source(),
		Status: TaskRunning, Timeout: timeout, CreatedAt: now, StartedAt: now,
	}
}

// TurnRequest describes the next task of an agent that is known by its uid.
type TurnRequest struct {
	Method    string // of the API, for the request id
	AgentUID  string
	Prompt    string
	Timeout   time.Duration // 0: Config.TaskTimeout
	SessionID string
	RequestID string                               `json:"-"`
	Also      func(tx Tx, a *Agent, t *Task) error `json:"-"` // see LaunchRequest
}

// Turn hands the agent its next task and returns at once. An agent that is still being made gets it when it is ready.
// AGENT_BUSY when it has one, AGENT_OFFLINE when its workspace does not run and is not about to.
func (s *Service) Turn(ctx context.Context, r TurnRequest) (task *Task, err error) {
	p, err := PrincipalFrom(ctx)
	if err != nil {
		return nil, err
	}
	if err := checkText(ReasonTaskRequired, "message", "the message", r.Prompt); err != nil {
		return nil, err
	}
	c, err := newCall(p, r.Method, r.RequestID, r)
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
		a, err := own(tx, p, r.AgentUID)
		if err != nil {
			return err
		}
		active, err := tx.ActiveTask(a.UID)
		switch {
		case err != nil:
			return err
		case active != nil:
			return agentBusy(a.Name, active)
		case a.Desired != DesiredRunning || a.State != StateRunning && !a.State.Moving():
			return agentOffline(a)
		}
		if err := s.cfg.Limits.admit(tx, a.Owner, more{tasks: 1}); err != nil {
			return err
		}
		if err := s.checkConfined(p, a); err != nil {
			return err
		}
		now := s.now()
		task = s.newTask(p, a, r.Prompt, r.Timeout, now)
		task.SessionID = r.SessionID
		if err := tx.InsertTask(task); err != nil {
			return err
		}
		if r.Also != nil {
			if err := r.Also(tx, a, task); err != nil {
				return err
			}
		}
		if err := c.remember(tx, a.UID, task.ID, now); err != nil {
			return err
		}
		return tx.Append(task.event(EventTaskCreated, now, task.Title()))
	})
	return task, err
}

// own returns an agent by its uid, when p may touch it. It may be deleted.
func own(tx ReadTx, p Principal, uid string) (*Agent, error) {
	a, err := tx.Agent(uid)
	if err != nil {
		return nil, err
	}
	if a == nil || !p.MayTouch(a) {
		return nil, Errorf(ReasonAgentNotFound, "agent %q not found", shorten(uid, 60)).With("agent_id", shorten(uid, 60))
	}
	return a, nil
}
