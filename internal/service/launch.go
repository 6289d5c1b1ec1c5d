package service

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/state"
)

// LaunchRequest describes an agent of another toolset, with its first task.
type LaunchRequest struct {
	Method  string // API method, for the request id
	Toolset fleet.Toolset
	// Place is the place of the agent. With an AgentConfig, the place must have the configuration's driver among its Traits, and ""
	// means the first one that has, see PlaceWith. Otherwise Project and Role define the agent, and "" means the
	// fleet's place that has the project.
	Place         string
	Project, Role string
	Spec          string
	Config        *fleet.AgentConfig `json:"Recipe"` // its name when the first requests were stored
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
	Also func(tx fleet.Tx, a *fleet.Agent, t *fleet.Task) error `json:"-"`

	selfStarted bool // the agent begins its spec by itself
}

// Launch creates an agent with its first task in one transaction, and does not wait: the task counts as running
// although the agent gets it when it is ready. A repeated request returns the same result.
func (s *Service) Launch(ctx context.Context, r LaunchRequest) (*fleet.AgentView, error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, err
	}
	if r.Prompt != "" {
		if err := checkText(fleet.ReasonTaskRequired, "prompt", "the prompt", r.Prompt); err != nil {
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
	var v *fleet.AgentView
	err = s.store.Update(ctx, func(tx fleet.Tx) error {
		if old, err := c.done(tx); err != nil || old != nil {
			if old != nil {
				v, err = launched(tx, old)
			}
			return err
		}
		wanted := increase{agents: 1}
		if r.Prompt != "" || r.selfStarted {
			wanted.tasks = 1
		}
		if err := admit(s.cfg.Limits, tx, p.Name, wanted); err != nil {
			return err
		}
		now := s.now()
		a := &fleet.Agent{
			UID: r.UID, Name: launchName(r), Owner: p.Name, Toolset: r.Toolset, Place: r.Place, Project: r.Project,
			Role: r.Role, Spec: r.Spec, Config: r.Config, OneTask: r.OneTask,
			State: fleet.StatePending, Desired: fleet.DesiredRunning, CreatedAt: now, UpdatedAt: now,
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
		if err := tx.Append(a.Event(fleet.EventAgentCreated, now, fmt.Sprintf("agent created for %s", r.Toolset))); err != nil {
			return err
		}
		v = &fleet.AgentView{Agent: *a}
		if prompt != "" {
			v.Task = s.newTask(p, a, prompt, r.Timeout, now)
			v.Task.SessionID, v.Task.SelfStarted = r.SessionID, r.selfStarted
			if err := tx.InsertTask(v.Task); err != nil {
				return err
			}
			if err := tx.Append(v.Task.Event(fleet.EventTaskCreated, now, v.Task.Title())); err != nil {
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
	places := s.places.Fleet
	if r.Place != "" {
		p := s.places.Lookup(r.Place)
		if p == nil {
			return fleet.Invalid(fleet.ReasonInvalidArgument, "place", "there is no place %q: there are %s", r.Place, fleet.JoinNames(s.PlaceNames()))
		}
		r.Place, places = p.Name, []*state.ManagedPlace{p}
	}
	if r.Config != nil && r.Config.Driver != "" {
		return s.launchableBy(ctx, r)
	}
	project, place, err := s.places.FindProject(ctx, r.Project, places...)
	if err != nil {
		return asInvalid(err, "project")
	}
	role, err := place.Catalog.Role(ctx, project.Name, r.Role)
	if err != nil {
		return asInvalid(err, "role")
	}
	r.Place, r.Project, r.Role, r.selfStarted = place.Name, project.Name, role.Name, project.SpecIsTask
	return nil
}

// launchableBy checks that the request's configuration can be used.
func (s *Service) launchableBy(ctx context.Context, r *LaunchRequest) error {
	if r.Place == "" {
		t, ok := s.PlaceWith(r.Config.Driver)
		if !ok {
			return fleet.Invalid(fleet.ReasonInvalidArgument, "driver", "no place of this server has the driver %q", r.Config.Driver)
		}
		r.Place = t.Name
	}
	t := s.places.Lookup(r.Place).Facts
	if _, ok := t.Driver(r.Config.Driver); !ok {
		return fleet.Invalid(fleet.ReasonInvalidArgument, "driver", "the place %s has no driver %q: it has %s", t.Name, r.Config.Driver, fleet.JoinNames(t.DriverNames()))
	}
	return s.placeable(ctx, r)
}

// placeable checks that the configuration's project exists, and returns its name at its place.
func (s *Service) placeable(ctx context.Context, r *LaunchRequest) error {
	if r.Config.Place == "" {
		return nil
	}
	place := s.places.Lookup(r.Config.Place)
	if place == nil {
		return fleet.Errorf(fleet.ReasonBackendUnavailable, "this server has no place %q, whose projects agents can work in", r.Config.Place)
	}
	project, _, err := s.places.FindProject(ctx, r.Project, place)
	r.Project = project.Name
	return asInvalid(err, "project")
}

// joinTexts joins the texts that are not empty.
func joinTexts(texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, fleet.IsBlank), "\n\n")
}

// launched returns the current state of what a request made.
func launched(tx fleet.ReadTx, old *fleet.Request) (*fleet.AgentView, error) {
	a, err := tx.Agent(old.AgentUID)
	if err != nil || a == nil {
		return nil, err
	}
	v := &fleet.AgentView{Agent: *a}
	if old.TaskID != "" {
		v.Task, err = startedTask(tx, old)
	}
	return v, err
}

// launchName returns a unique name for events. The name of an agent made by a project also names its workspace, so it
// must be one that a person could have chosen.
func launchName(r LaunchRequest) string {
	id := strings.ReplaceAll(r.UID, "-", "")
	if r.Config == nil || r.Config.Driver == "" {
		const tail = 12
		plain := strings.Join(strings.FieldsFunc(r.Name, func(c rune) bool { return !inName(c) }), "-")
		if plain = strings.Trim(plain[:min(len(plain), fleet.MaxNameLength-tail-1)], "-"); plain != "" {
			return plain + "-" + id[:min(len(id), tail)]
		}
		return id[:min(len(id), fleet.MaxNameLength)]
	}
	if r.Name == "" {
		return r.UID
	}
	return r.Name + "-" + id[:min(len(id), 12)]
}

// inName reports whether the character can be in a name, apart from hyphens.
func inName(c rune) bool { return c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' }

func taskID(t *fleet.Task) string {
	if t == nil {
		return ""
	}
	return t.ID
}

// newTask returns a running task of the agent.
func (s *Service) newTask(p fleet.Principal, a *fleet.Agent, prompt string, timeout time.Duration, now time.Time) *fleet.Task {
	if timeout == 0 {
		timeout = s.cfg.TaskTimeout
	}
	return &fleet.Task{
		ID: s.cfg.NewID(), AgentUID: a.UID, AgentName: a.Name, Owner: a.Owner, Description: prompt, Source: p.Source(),
		Status: fleet.TaskRunning, Timeout: timeout, CreatedAt: now, StartedAt: now,
	}
}

// TurnRequest describes the next task of an agent, which is named by its uid.
type TurnRequest struct {
	Method    string // API method, for the request id
	AgentUID  string
	Prompt    string
	Timeout   time.Duration // 0 means Config.TaskTimeout
	SessionID string
	RequestID string                                                 `json:"-"`
	Also      func(tx fleet.Tx, a *fleet.Agent, t *fleet.Task) error `json:"-"` // see LaunchRequest
}

// Turn gives the agent its next task and does not wait. An agent that is still being made gets it when it is ready.
// AGENT_BUSY if it has a task, AGENT_OFFLINE if its workspace neither runs nor starts.
func (s *Service) Turn(ctx context.Context, r TurnRequest) (task *fleet.Task, err error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, err
	}
	if err := checkText(fleet.ReasonTaskRequired, "message", "the message", r.Prompt); err != nil {
		return nil, err
	}
	c, err := newCall(p, r.Method, r.RequestID, r)
	if err != nil {
		return nil, err
	}
	err = s.store.Update(ctx, func(tx fleet.Tx) error {
		if old, err := c.done(tx); err != nil || old != nil {
			if old != nil {
				task, err = startedTask(tx, old)
			}
			return err
		}
		a, err := ownAgent(tx, p, r.AgentUID)
		if err != nil {
			return err
		}
		active, err := tx.ActiveTask(a.UID)
		switch {
		case err != nil:
			return err
		case active != nil:
			return agentBusy(a.Name, active)
		case a.Desired != fleet.DesiredRunning || a.State != fleet.StateRunning && !a.State.Moving():
			return agentOffline(a)
		}
		if err := admit(s.cfg.Limits, tx, a.Owner, increase{tasks: 1}); err != nil {
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
		return tx.Append(task.Event(fleet.EventTaskCreated, now, task.Title()))
	})
	return task, err
}

// ownAgent returns an agent by its uid if p may change it. It may be deleted.
func ownAgent(tx fleet.ReadTx, p fleet.Principal, uid string) (*fleet.Agent, error) {
	a, err := tx.Agent(uid)
	if err != nil {
		return nil, err
	}
	if a == nil || !p.MayTouch(a) {
		return nil, fleet.Errorf(fleet.ReasonAgentNotFound, "agent %q not found", fleet.Shorten(uid, 60)).With("agent_id", fleet.Shorten(uid, 60))
	}
	return a, nil
}
