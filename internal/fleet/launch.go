package fleet

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// LaunchRequest describes an agent of another toolset, with its first task.
type LaunchRequest struct {
	Method  string // API method, for the request id
	Toolset Toolset
	// Place is the place of the agent. With a Recipe, the place must have the recipe's driver among its Traits, and ""
	// means the first one that has, see PlaceWith. Otherwise Project and Role define the agent, and "" means the
	// fleet's place that has the project.
	Place         string
	Project, Role string
	Spec          string
	Recipe        *Recipe
	// UID is the agent's id, for an agent that must know its own; empty means a new one.
	UID string
	// Name is the prefix of the agent's name in events; empty means its id.
	Name    string
	OneTask bool // the agent is deleted when its task has ended

	Prompt    string // of the first task; empty if there is none yet
	Timeout   time.Duration
	SessionID string // of the first task
	RequestID string `json:"-"`
	// Body is what the request id identifies; nil means this request.
	Body any `json:"-"`
	// Also runs in the same transaction, to store what the toolset keeps with the agent. It may be nil.
	Also func(tx Tx, a *Agent, t *Task) error `json:"-"`

	selfStarted bool // the agent begins its spec by itself
}

// Launch creates an agent with its first task in one transaction, and does not wait: the task counts as running
// although the agent gets it when it is ready. A repeated request returns the same result.
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
			UID: r.UID, Name: launchName(r), Owner: p.Name, Toolset: r.Toolset, Place: r.Place, Project: r.Project,
			Role: r.Role, Spec: r.Spec, Recipe: r.Recipe, OneTask: r.OneTask,
			State: StatePending, Desired: DesiredRunning, CreatedAt: now, UpdatedAt: now,
		}
		prompt := r.Prompt
		if r.selfStarted { // then both are the same text
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

// launchable checks that the agent can be made as the request wants.
func (s *Service) launchable(ctx context.Context, r *LaunchRequest) error {
	places := s.places.fleet
	if r.Place != "" {
		p := s.places.lookup(r.Place)
		if p == nil {
			return Invalid(ReasonInvalidArgument, "place", "there is no place %q: there are %s", r.Place, list(s.PlaceNames()))
		}
		places = []*managedPlace{p}
	}
	if r.Recipe != nil && r.Recipe.Driver != "" {
		return s.launchableBy(ctx, r)
	}
	project, place, err := s.places.findProject(ctx, r.Project, places...)
	if err != nil {
		return asInvalid(err, "project")
	}
	role, err := place.catalog.role(ctx, project.Name, r.Role)
	if err != nil {
		return asInvalid(err, "role")
	}
	r.Place, r.Project, r.Role, r.selfStarted = place.name, project.Name, role.Name, project.SpecIsTask
	return nil
}

// launchableBy checks that the request's recipe can be used.
func (s *Service) launchableBy(ctx context.Context, r *LaunchRequest) error {
	if r.Place == "" {
		t, ok := s.PlaceWith(r.Recipe.Driver)
		if !ok {
			return Invalid(ReasonInvalidArgument, "driver", "no place of this server has the driver %q", r.Recipe.Driver)
		}
		r.Place = t.Name
	}
	t := s.places.lookup(r.Place).traits
	if _, ok := t.Driver(r.Recipe.Driver); !ok {
		return Invalid(ReasonInvalidArgument, "driver", "the place %s has no driver %q: it has %s", t.Name, r.Recipe.Driver, list(t.DriverNames()))
	}
	return s.placeable(ctx, r)
}

// placeable checks that the recipe's project exists, and returns its name at its place.
func (s *Service) placeable(ctx context.Context, r *LaunchRequest) error {
	if r.Recipe.Place == "" {
		return nil
	}
	place := s.places.lookup(r.Recipe.Place)
	if place == nil {
		return Errorf(ReasonBackendUnavailable, "this server has no place %q, whose projects agents can work in", r.Recipe.Place)
	}
	project, _, err := s.places.findProject(ctx, r.Project, place)
	r.Project = project.Name
	return asInvalid(err, "project")
}

// joinTexts joins the texts that are not empty.
func joinTexts(texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, isBlank), "\n\n")
}

// launched returns the current state of what a request made.
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

// launchName returns a unique name for events. The name of an agent made by a project also names its workspace, so it
// must be one that a person could have chosen.
func launchName(r LaunchRequest) string {
	id := strings.ReplaceAll(r.UID, "-", "")
	if r.Recipe == nil || r.Recipe.Driver == "" {
		const tail = 12
		plain := strings.Join(strings.FieldsFunc(r.Name, func(c rune) bool { return !inName(c) }), "-")
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

// inName reports whether the character can be in a name, apart from hyphens.
func inName(c rune) bool { return c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' }

func taskID(t *Task) string {
	if t == nil {
		return ""
	}
	return t.ID
}

// newTask returns a running task of the agent.
func (s *Service) newTask(p Principal, a *Agent, prompt string, timeout time.Duration, now time.Time) *Task {
	if timeout == 0 {
		timeout = s.cfg.TaskTimeout
	}
	return &Task{
		ID: s.cfg.NewID(), AgentUID: a.UID, AgentName: a.Name, Owner: a.Owner, Description: prompt, Source: p.Source(),
		Status: TaskRunning, Timeout: timeout, CreatedAt: now, StartedAt: now,
	}
}

// TurnRequest describes the next task of an agent, which is named by its uid.
type TurnRequest struct {
	Method    string // API method, for the request id
	AgentUID  string
	Prompt    string
	Timeout   time.Duration // 0 means Config.TaskTimeout
	SessionID string
	RequestID string                               `json:"-"`
	Also      func(tx Tx, a *Agent, t *Task) error `json:"-"` // see LaunchRequest
}

// Turn gives the agent its next task and does not wait. An agent that is still being made gets it when it is ready.
// AGENT_BUSY if it has a task, AGENT_OFFLINE if its workspace neither runs nor starts.
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

// own returns an agent by its uid if p may change it. It may be deleted.
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
