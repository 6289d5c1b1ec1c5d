package fake

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"fleet/internal/fleet"
)

// Config says what the world is like at first. The zero value is a world with the projects of the contract, in which
// everything works at once.
type Config struct {
	// Traits of the backend; the name is "fake" unless it is set.
	Traits fleet.Traits

	// Projects that agents can work on; nil for DefaultProjects. Order does not matter.
	Projects []Project

	// Workspaces that are there already; see AddWorkspace.
	Workspaces []fleet.Workspace

	// BuildLooks is how many calls of Inspect or List see a workspace as starting after Provision and Start.
	BuildLooks int

	// BuildTime is how long a workspace is starting after Provision and Start.
	BuildTime time.Duration

	// NoMessages makes Send UNIMPLEMENTED.
	NoMessages bool

	// NoQuestions makes Answer UNIMPLEMENTED; the trait Asks is set without it.
	NoQuestions bool

	// Before and After are called in every call of the port, before it does anything and after it has done everything
	// but answer. An error that they return is the call's.
	Before, After func(ctx context.Context, c Call) error

	// Now is the clock; nil for time.Now.
	Now func() time.Time
}

// Project is a project with its roles.
type Project struct {
	fleet.Project
	Roles []fleet.Role // none: DefaultRoles
}

// DefaultProjects returns the two projects of the contract's examples.
func DefaultProjects() []Project {
	return []Project{
		{Project: fleet.Project{
			Name: "DataOne", DisplayName: "DataOne Platform", Description: "Data processing and analytics platform",
			TemplateID: "template-uuid-2", TemplateName: "dataone-devcontainer",
		}},
		{Project: fleet.Project{
			Name: "Setup", DisplayName: "Setup Monorepo", Description: "Infrastructure and tooling monorepo",
			TemplateID: "template-uuid-1", TemplateName: "setup-devcontainer",
		}},
	}
}

// DefaultRoles returns the three roles of the contract's examples.
func DefaultRoles() []fleet.Role {
	return []fleet.Role{
		{Name: "coder", DisplayName: "Software Engineer", Description: "Writes code, implements features, fixes bugs", Default: true},
		{Name: "operator", DisplayName: "Operations Engineer", Description: "Manages deployments, monitors systems, handles incidents"},
		{Name: "manager", DisplayName: "Engineering Manager", Description: "Coordinates work, reviews specs, verifies agent alignment"},
	}
}

// Place is the world, and a fleet.Place that hosts agents in it. All its methods are safe for concurrent use.
type Place struct {
	config  Config
	working sync.WaitGroup // runs under way

	mu         sync.Mutex
	projects   []Project
	workspaces []*workspace // that are not deleted, oldest first
	byUID      map[string]*workspace
	byID       map[string]*workspace
	made       int // workspaces, ever
	runs       map[string]*run
	deliveries map[string]int
	dispatches map[string]int

	builds    *Gate // that new builds wait for; nil: none
	beginning *Gate // that new runs wait for; nil: none
	failing   map[string][]string
	gates     map[string]*Gate
	holds     map[moment]*Gate
	faults    map[moment]*fault
	delays    map[Method]time.Duration
	calls     map[Method]int
	changing  map[string]Method // by agent uid
	overlaps  []string
	left      map[string]string // what deleted agents made, by uid
}

var _ fleet.Place = (*Place)(nil)

// New makes a world.
func New(c Config) *Place {
	c.Traits.Name = or(c.Traits.Name, "fake")
	c.Traits.Asks = !c.NoQuestions
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Projects == nil {
		c.Projects = DefaultProjects()
	}
	b := &Place{
		config: c, projects: sorted(c.Projects),
		byUID: map[string]*workspace{}, byID: map[string]*workspace{}, runs: map[string]*run{},
		deliveries: map[string]int{}, dispatches: map[string]int{},
		failing: map[string][]string{}, gates: map[string]*Gate{}, holds: map[moment]*Gate{}, faults: map[moment]*fault{},
		left: map[string]string{}, delays: map[Method]time.Duration{}, calls: map[Method]int{}, changing: map[string]Method{},
	}
	for _, w := range c.Workspaces {
		b.AddWorkspace(w)
	}
	return b
}

func sorted(projects []Project) []Project {
	return slices.SortedFunc(slices.Values(projects), func(x, y Project) int { return cmp.Compare(x.Name, y.Name) })
}

// Traits returns what Config says.
func (b *Place) Traits() fleet.Traits { return b.config.Traits }

// Projects lists the projects by name.
func (b *Place) Projects(ctx context.Context) (projects []fleet.Project, err error) {
	err = b.call(ctx, Call{Method: Projects}, func() error {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, p := range b.projects {
			projects = append(projects, p.Project)
		}
		return nil
	})
	return projects, err
}

// Roles lists the roles of the project.
func (b *Place) Roles(ctx context.Context, project string) (roles []fleet.Role, err error) {
	err = b.call(ctx, Call{Method: Roles}, func() error {
		b.mu.Lock()
		defer b.mu.Unlock()
		p, err := b.project(project)
		roles = p.Roles
		if len(roles) == 0 {
			roles = DefaultRoles()
		}
		roles = slices.Clone(roles)
		return err
	})
	if err != nil {
		return nil, err
	}
	return roles, nil
}

// project returns the project of exactly this name. The world's mutex is held.
func (b *Place) project(name string) (Project, error) {
	var known []string
	for _, p := range b.projects {
		if p.Name == name {
			return p, nil
		}
		known = append(known, strconv.Quote(p.Name))
	}
	return Project{}, fleet.Errorf(fleet.ReasonProjectNotFound, "there is no project %q: choose one of %s", name, or(strings.Join(known, ", "), "none"))
}

// Provision makes the agent's workspace.
func (b *Place) Provision(ctx context.Context, a fleet.Agent) (ws fleet.Workspace, err error) {
	err = b.call(ctx, Call{Method: Provision, Agent: a}, func() error {
		b.mu.Lock()
		defer b.mu.Unlock()
		if w := b.of(a); w != nil {
			b.settle(w)
			ws = w.view()
			return nil
		}
		p, err := b.project(a.Project)
		if err != nil && a.Recipe == nil {
			return fleet.Errorf(fleet.ReasonProvisioningFailed, "the workspace of agent %q cannot be made: %s", a.Name, fleet.PublicMessage(err))
		}
		for _, w := range b.workspaces {
			if (w.Owner == a.Owner || b.config.Traits.UniqueNames) && strings.EqualFold(w.Name, a.Name) {
				return fleet.Errorf(fleet.ReasonAgentExists, "there is a workspace named %q already: choose another name", w.Name).With("field", "name")
			}
		}
		w := &workspace{begins: p.SpecIsTask, Workspace: fleet.Workspace{
			AgentUID: a.UID, Name: a.Name, Owner: a.Owner, Project: a.Project, Role: a.Role, Spec: a.Spec,
			Metadata: map[string]string{"fleet_mcp_agent_spec": a.Spec},
		}}
		b.add(w)
		b.build(w)
		ws = w.view()
		return nil
	})
	if err != nil {
		return fleet.Workspace{}, err
	}
	return ws, nil
}

// Start starts the agent's workspace.
func (b *Place) Start(ctx context.Context, a fleet.Agent) error {
	return b.call(ctx, Call{Method: Start, Agent: a}, func() error {
		b.mu.Lock()
		defer b.mu.Unlock()
		w := b.of(a)
		if w == nil {
			return gone(a)
		}
		b.settle(w)
		switch w.State {
		case fleet.StateStopped, fleet.StateFailed, fleet.StateCanceled:
			w.Role = a.Role
			b.build(w)
		}
		return nil
	})
}

// Stop stops the agent's workspace; its run ends as stopped.
func (b *Place) Stop(ctx context.Context, a fleet.Agent) error {
	return b.call(ctx, Call{Method: Stop, Agent: a}, func() error {
		b.mu.Lock()
		defer b.mu.Unlock()
		w := b.of(a)
		if w == nil {
			return gone(a)
		}
		if w.State != fleet.StateStopped {
			b.halt(w, fleet.TaskStopped)
		}
		return nil
	})
}

// Delete destroys the agent's workspace; its run ends as stopped.
func (b *Place) Delete(ctx context.Context, a fleet.Agent) (kept string, err error) {
	err = b.call(ctx, Call{Method: Delete, Agent: a}, func() error {
		b.mu.Lock()
		defer b.mu.Unlock()
		if w := b.of(a); w != nil {
			kept = w.kept
			b.destroy(w, fleet.TaskStopped)
		}
		return nil
	})
	return kept, err
}

// Inspect tells how the agent's workspace is, and is a look at its build.
func (b *Place) Inspect(ctx context.Context, a fleet.Agent) (ws fleet.Workspace, err error) {
	err = b.call(ctx, Call{Method: Inspect, Agent: a}, func() error {
		b.mu.Lock()
		defer b.mu.Unlock()
		w := b.of(a)
		if w == nil {
			ws = fleet.Workspace{ID: a.WorkspaceID, State: fleet.StateDeleted, AgentUID: a.UID}
			return nil
		}
		b.settle(w)
		ws = w.view()
		b.look(w)
		return nil
	})
	if err != nil {
		return fleet.Workspace{}, err
	}
	return ws, nil
}

// List tells how all workspaces are, oldest first, and is a look at their builds.
func (b *Place) List(ctx context.Context) (all []fleet.Workspace, err error) {
	err = b.call(ctx, Call{Method: List}, func() error {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, w := range b.workspaces {
			b.settle(w)
			all = append(all, w.view())
			b.look(w)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// Dispatch gives the run to the agent.
func (w runner) Dispatch(ctx context.Context, r fleet.Run) error {
	b, a := w.place, w.agent
	return b.call(ctx, Call{Method: Dispatch, Agent: a, TaskID: r.TaskID, Report: r.Report}, func() error {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.dispatches[r.TaskID]++
		if b.runs[r.TaskID] != nil {
			return nil
		}
		w := b.of(a)
		if w == nil {
			return fleet.Errorf(fleet.ReasonAgentOffline, "agent %q has no workspace", a.Name)
		}
		b.settle(w)
		if w.State != fleet.StateRunning {
			return fleet.Errorf(fleet.ReasonAgentOffline, "the workspace of agent %q is %s: start the agent first", a.Name, w.State)
		}
		if r.SelfStarted {
			return b.claim(w, r)
		}
		if w.busy() {
			return fleet.Errorf(fleet.ReasonAgentBusy, "agent %q works on another task: wait for it, or stop it", a.Name)
		}
		b.start(w, r)
		return nil
	})
}

// Follow follows the run. What a deleted workspace's run put out can still be followed: the world forgets nothing.
func (w runner) Follow(ctx context.Context, r fleet.Run, cursor string, sink func(fleet.Output) error) (o fleet.Outcome, err error) {
	b, a := w.place, w.agent
	err = b.call(ctx, Call{Method: Follow, Agent: a, TaskID: r.TaskID}, func() error {
		known, err := b.known(a, r)
		if err != nil {
			return err
		}
		next, err := b.position(known, cursor)
		if err != nil {
			return err
		}
		told := map[string]fleet.QuestionStatus{} // what became of questions, as the sink was told
		tell := func(all []fleet.Question, waiting bool) error {
			for _, q := range all {
				if told[q.ID] == q.Status || waiting != (q.Status == fleet.QuestionWaiting) {
					continue
				}
				told[q.ID] = q.Status
				if err := sink(fleet.Output{Question: &q}); err != nil {
					return err
				}
			}
			return nil
		}
		for {
			outputs, asked, ended, changed := b.after(known, next)
			if err := tell(asked, false); err != nil {
				return err
			}
			for _, out := range outputs {
				if err := ctx.Err(); err != nil {
					return err
				}
				if err := sink(out); err != nil {
					return err
				}
				next++
			}
			if err := tell(asked, true); err != nil { // after what the agent wrote before it asked
				return err
			}
			if ended {
				o = b.result(known)
				return nil
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
	if err != nil {
		return fleet.Outcome{}, err
	}
	return o, nil
}

// position turns a cursor into how many outputs come before what follows it.
func (b *Place) position(r *run, cursor string) (int, error) {
	if cursor == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(cursor)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil || n < 1 || n > len(r.outputs) {
		return 0, fmt.Errorf("fake: run %s never gave the cursor %q", r.task.TaskID, cursor)
	}
	return n, nil
}

// Interrupt ends the run as stopped, unless its script says that it does not listen.
func (w runner) Interrupt(ctx context.Context, r fleet.Run, kill bool) error {
	b, a := w.place, w.agent
	return b.call(ctx, Call{Method: Interrupt, Agent: a, TaskID: r.TaskID, Kill: kill}, func() error {
		known, err := b.known(a, r)
		if err != nil {
			return err
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		known.stopChecks()
		switch {
		case kill && known.script.ignoreKill:
			b.put(known, "kill ignored", false)
		case !kill && known.script.ignoreInterrupt:
			b.put(known, "interrupt ignored", false)
		case kill:
			b.end(known, fleet.Outcome{Status: fleet.TaskStopped, Reason: "it was killed"})
		default:
			b.end(known, fleet.Outcome{Status: fleet.TaskStopped, Reason: "it was interrupted"})
		}
		return nil
	})
}

// Send gives the run a message, which its script can listen to.
func (w runner) Send(ctx context.Context, r fleet.Run, id, message string) error {
	b, a := w.place, w.agent
	return b.call(ctx, Call{Method: Send, Agent: a, TaskID: r.TaskID}, func() error {
		if b.config.NoMessages {
			return fleet.Errorf(fleet.ReasonUnimplemented, "agent %q cannot take messages while it works: wait for the task to end, and start another one", a.Name)
		}
		known, err := b.known(a, r)
		if err != nil {
			return err
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		if known.sent[id] {
			return nil
		}
		if known.ended() {
			return fleet.Errorf(fleet.ReasonNoRunningTask, "the task of agent %q has ended: start another one", a.Name)
		}
		known.sent[id] = true
		known.messages = append(known.messages, message)
		known.wake()
		return nil
	})
}

// Answer gives the run the answer to its question.
func (w runner) Answer(ctx context.Context, r fleet.Run, q fleet.Question) error {
	b, a := w.place, w.agent
	return b.call(ctx, Call{Method: Answer, Agent: a, TaskID: r.TaskID}, func() error {
		if b.config.NoQuestions {
			return fleet.Errorf(fleet.ReasonUnimplemented, "agent %q asks no questions", a.Name)
		}
		known, err := b.known(a, r)
		if err != nil {
			return err
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		n := slices.IndexFunc(known.questions, func(asked fleet.Question) bool { return asked.ID == q.LocalID() })
		switch {
		case n < 0:
			return fleet.Errorf(fleet.ReasonQuestionNotFound, "agent %q never asked the question %s", a.Name, q.ID)
		case known.questions[n].Status == fleet.QuestionAnswered:
			return nil
		case known.ended():
			return fleet.Errorf(fleet.ReasonNoRunningTask, "the task of agent %q has ended", a.Name)
		case known.questions[n].Status != fleet.QuestionWaiting:
			return fleet.Errorf(fleet.ReasonQuestionClosed, "agent %q does not wait for the answer any more", a.Name)
		}
		asked := &known.questions[n]
		asked.Status, asked.Answer, asked.Message, asked.AnsweredBy, asked.AnsweredAt = fleet.QuestionAnswered, q.Answer, q.Message, q.AnsweredBy, q.AnsweredAt
		known.wake()
		return nil
	})
}

// known returns the run when the agent was given it.
func (b *Place) known(a fleet.Agent, r fleet.Run) (*run, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if known := b.runs[r.TaskID]; known != nil {
		return known, nil
	}
	return nil, fleet.Errorf(fleet.ReasonTaskNotFound, "agent %q was never given the task %s", a.Name, r.TaskID)
}

// Log returns the last lines of the log: what happened to the workspace, and what its runs put out.
func (b *Place) Log(ctx context.Context, a fleet.Agent, n int) (lines []string, truncated bool, err error) {
	err = b.call(ctx, Call{Method: Log, Agent: a}, func() error {
		b.mu.Lock()
		defer b.mu.Unlock()
		w := b.of(a)
		if w == nil {
			return gone(a)
		}
		first := max(0, len(w.log)-max(n, 0))
		lines, truncated = slices.Clone(w.log[first:]), first > 0
		return nil
	})
	if err != nil {
		return nil, false, err
	}
	return lines, truncated, nil
}

// Close does nothing: the fake does nothing in the background but what its agents do, and they go on. The Place can
// be used again, as by a server that starts after this one. See Destroy.
func (b *Place) Close() error { return nil }

func gone(a fleet.Agent) error {
	return fleet.Errorf(fleet.ReasonAgentNotFound, "the workspace of agent %q is gone: delete the agent, and create it anew", a.Name)
}
