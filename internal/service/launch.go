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

// LaunchRequest describes an agent with its first task, for a toolset other than the fleet's own.
type LaunchRequest struct {
	Method  string // API method, for the request id
	Toolset fleet.Toolset
	// Place is the place of the agent. If Config names a driver, the place must have that driver, and "" means the first place that
	// has it, see TraitsWithDriver. Otherwise the agent has the role Role in Project, and "" means the fleet's place that has Project.
	Place         string
	Project, Role string
	Spec          string
	Config        *fleet.AgentConfig
	// UID is the agent's uid, for a caller that needs it before the launch; empty means a new one.
	UID string
	// Name is the prefix of the agent's name in events; empty means its id.
	Name    string
	OneTask bool // the agent is deleted when its task has ended

	Prompt    string // description of the first task; empty if the agent begins without a task
	Timeout   time.Duration
	SessionID string // of the first task
	RequestID string `json:"-"`
	// Body becomes Call.Body; nil means this request.
	Body any `json:"-"`
	// Caller is the caller that has chosen the request id; empty means the principal.
	Caller string `json:"-"`
	// Admit returns an error if the principal has reached a limit of the toolset; nil means that there is no such limit. It runs
	// in the transaction that creates the agent.
	Admit func(tx fleet.Tx, principal string) error `json:"-"`

	selfStarted bool // the agent begins to work on its spec by itself
}

// Launch creates an agent with its first task in one transaction. It does not wait: the task is running from then on,
// although the agent receives it only when it is ready. A repeated request returns the current state of the agent that the
// first one created.
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
	v, result, repeated, err := s.launch(ctx, p, r, nil)
	if err != nil || !repeated {
		return v, err
	}
	return s.earlierLaunch(ctx, result)
}

// call returns the call that identifies the request.
func (r LaunchRequest) call() Call {
	c := Call{Method: r.Method, RequestID: r.RequestID, Body: r.Body, Caller: r.Caller}
	if c.Body == nil {
		c.Body = r
	}
	return c
}

// launch creates the agent with its first task. insertMore may be nil. It runs in the same transaction, and returns the result to
// remember with the request id. For a repeated request, launch creates nothing, and returns the earlier result without v.
func (s *Service) launch(
	ctx context.Context, p fleet.Principal, r LaunchRequest, insertMore func(fleet.Tx, *fleet.AgentView) (CallResult, error),
) (v *fleet.AgentView, result CallResult, repeated bool, err error) {
	c := r.call()
	if err := CheckRequestID(r.RequestID); err != nil {
		return nil, CallResult{}, false, err
	}
	if r.UID == "" {
		r.UID = s.cfg.NewID()
	}
	if err := s.resolveLaunch(ctx, &r); err != nil {
		return nil, CallResult{}, false, err
	}
	if err := checkReach(p, r.Place, r.Project); err != nil {
		return nil, CallResult{}, false, err
	}
	result, repeated, err = s.Once(ctx, c, func(tx fleet.Tx, _ fleet.Principal) (CallResult, error) {
		if v, err = s.insertLaunchedAgent(ctx, tx, p, r); err != nil {
			return CallResult{}, err
		}
		if insertMore != nil {
			return insertMore(tx, v)
		}
		return CallResult{AgentUID: v.UID, ObjectID: taskIDOrEmpty(v.Task)}, nil
	})
	return v, result, repeated, err
}

// insertLaunchedAgent adds the agent and its first task to the store.
func (s *Service) insertLaunchedAgent(ctx context.Context, tx fleet.Tx, p fleet.Principal, r LaunchRequest) (*fleet.AgentView, error) {
	wanted := increase{agents: 1, project: r.Project}
	if r.Prompt != "" || r.selfStarted {
		wanted.tasks = 1
	}
	// This limit is checked first, because it is the lowest. A store that locks only near a limit may have to run the
	// transaction again if it locks later.
	if r.Admit != nil {
		if err := r.Admit(tx, p.Name); err != nil {
			return nil, err
		}
	}
	if err := admit(ctx, s.Limits(), tx, p, p.Name, wanted); err != nil {
		return nil, err
	}
	now := s.now()
	a := &fleet.Agent{
		UID: r.UID, Name: launchName(r), Owner: p.Name, Toolset: r.Toolset, Place: r.Place, Project: r.Project,
		Role: r.Role, Spec: r.Spec, Config: r.Config, OneTask: r.OneTask,
		Host:  fleet.HostFacts{Credential: s.places.Of(&fleet.Agent{Place: r.Place}).Credential(r.Project)},
		State: fleet.StatePending, Desired: fleet.DesiredRunning, CreatedAt: now, UpdatedAt: now, Trace: fleet.TraceFrom(ctx),
	}
	prompt := r.Prompt
	if r.selfStarted { // the spec and the prompt are the same text
		prompt = joinTexts(r.Spec, r.Prompt)
		a.Spec = prompt
	}
	if err := s.checkConfined(p, a); err != nil {
		return nil, err
	}
	if err := tx.Insert(a); err != nil {
		return nil, err
	}
	if err := tx.Append(a.Event(fleet.EventAgentCreated, now, fmt.Sprintf("agent created for %s", r.Toolset))); err != nil {
		return nil, err
	}
	v := &fleet.AgentView{Agent: *a}
	if prompt != "" {
		v.Task = s.newTask(ctx, p, a, prompt, r.Timeout, now)
		v.Task.SessionID, v.Task.SelfStarted = r.SessionID, r.selfStarted
		if err := s.insertTask(tx, p, a, v.Task); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// resolveLaunch checks that the requested agent can be created. It sets the exact names of the place, the project and the role, and
// selfStarted.
func (s *Service) resolveLaunch(ctx context.Context, r *LaunchRequest) error {
	places := s.places.Fleet
	if r.Place != "" {
		p := s.places.Configured(r.Place)
		if p == nil {
			return fleet.InvalidField("place", "there is no place %q: there are %s", r.Place, fleet.JoinNames(s.PlaceNames()))
		}
		r.Place, places = p.Name, []*state.ManagedPlace{p}
	}
	if r.Config != nil && r.Config.Driver != "" {
		return s.resolveDriver(ctx, r)
	}
	project, place, err := s.places.FindProject(ctx, r.Project, places...)
	if err != nil {
		return asInvalid(err, "project")
	}
	role, err := place.Catalog.Role(ctx, project.Name, r.Role)
	if err != nil {
		return asInvalid(err, "role")
	}
	if err := project.CheckParameters(role, nil); err != nil {
		return err
	}
	r.Place, r.Project, r.Role, r.selfStarted = place.Name, project.Name, role.Name, project.SpecIsTask
	return nil
}

// resolveDriver checks that the place supports the driver of the configuration, and that the configuration's project exists. It sets the
// place if the request names none.
func (s *Service) resolveDriver(ctx context.Context, r *LaunchRequest) error {
	if r.Place == "" {
		t, ok := s.TraitsWithDriver(r.Config.Driver)
		if !ok {
			return fleet.InvalidField("driver", "no place of this server has the driver %q", r.Config.Driver)
		}
		r.Place = t.Name
	}
	t := s.places.Configured(r.Place).Traits()
	if _, ok := t.Driver(r.Config.Driver); !ok {
		return fleet.InvalidField("driver", "the place %s has no driver %q: it has %s", t.Name, r.Config.Driver, fleet.JoinNames(t.DriverNames()))
	}
	return s.resolveProject(ctx, r)
}

// resolveProject checks that the configuration's project exists at its place, and sets the project's exact name.
func (s *Service) resolveProject(ctx context.Context, r *LaunchRequest) error {
	if r.Config.Place == "" {
		return nil
	}
	place := s.places.Configured(r.Config.Place)
	if place == nil {
		return fleet.Errorf(fleet.ReasonBackendUnavailable, "this server has no place %q with projects that agents can work in", r.Config.Place)
	}
	project, _, err := s.places.FindProject(ctx, r.Project, place)
	r.Project = project.Name
	return asInvalid(err, "project")
}

// joinTexts joins the texts that are not empty.
func joinTexts(texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, fleet.IsBlank), "\n\n")
}

// earlierLaunch returns the current state of the agent that an earlier request with the same id created. The error is AGENT_NOT_FOUND
// or TASK_NOT_FOUND if the agent or its task no longer exists.
func (s *Service) earlierLaunch(ctx context.Context, result CallResult) (*fleet.AgentView, error) {
	return view(ctx, s.store, func(tx fleet.ReadTx) (*fleet.AgentView, error) {
		a, err := tx.Agent(result.AgentUID)
		if err == nil && a == nil {
			err = fleet.Errorf(fleet.ReasonAgentNotFound, "this request created an agent that no longer exists: use another request_id to create a new one")
		}
		if err != nil {
			return nil, err
		}
		v := &fleet.AgentView{Agent: *a}
		if result.ObjectID != "" {
			v.Task, err = startedTask(tx, result)
		}
		return v, err
	})
}

// launchName returns a unique name for events. The name of an agent of a project is also the name of its workspace, so it
// must be valid as an agent's name.
func launchName(r LaunchRequest) string {
	const tail = 12 // characters of the id that make the name unique
	id := strings.ReplaceAll(r.UID, "-", "")
	if r.Config == nil || r.Config.Driver == "" {
		plain := strings.Join(strings.FieldsFunc(r.Name, func(c rune) bool { return !isNameChar(c) }), "-")
		if plain = strings.Trim(plain[:min(len(plain), fleet.MaxAgentNameLength-tail-1)], "-"); plain != "" {
			return plain + "-" + id[:min(len(id), tail)]
		}
		return id[:min(len(id), fleet.MaxAgentNameLength)]
	}
	if r.Name == "" {
		return r.UID
	}
	return r.Name + "-" + id[:min(len(id), tail)]
}

// isNameChar reports whether the character can be in a name, apart from hyphens.
func isNameChar(c rune) bool {
	return c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
}

// taskIDOrEmpty returns the id of the task; "" if t is nil.
func taskIDOrEmpty(t *fleet.Task) string {
	if t == nil {
		return ""
	}
	return t.ID
}
