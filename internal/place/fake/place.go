package fake

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"fleet/internal/fleet"
)

// Place is a world and its fleet.Place. Its methods are safe for concurrent use.
type Place struct {
	config     Config
	goroutines sync.WaitGroup // of runs and checks

	mu                sync.Mutex
	projects          []Project
	workspaces        []*workspace // existing workspaces, oldest first
	byUID             map[string]*workspace
	byID              map[string]*workspace
	workspacesCreated int             // number of workspaces ever created
	runs              map[string]*run // by task
	runCounts         map[string]int  // by task, see RunCount
	dispatchCounts    map[string]int  // by task, see DispatchCount

	buildGate      *Gate               // new builds wait at this gate; may be nil
	runGate        *Gate               // new runs wait at this gate; may be nil
	buildFailures  map[string][]string // reasons of the next failures, by the agent's name in lower case
	gates          map[string]*Gate    // gates of the instruction wait, by name
	holdGates      map[hookPoint]*Gate
	faults         map[hookPoint]*fault
	delays         map[Method]time.Duration
	calls          map[Method]int
	callWaiters    []callWaiter
	changing       map[string]Method // by agent uid
	overlaps       []string
	workOfDeleted  map[string]string               // work of deleted agents, by uid
	keptWorkspaces []*workspace                    // workspaces that Delete has kept, oldest first
	mainCommits    map[string]string               // the newest commit of the branch main, by project
	commitChecks   map[[3]string]fleet.CheckResult // by the commit, the id and the command
	commits        map[string]*commit              // by id
	protected      bool                            // see ProtectBranches
	otherCaller    bool                            // see SetOtherCaller
}

var (
	_ fleet.Place     = (*Place)(nil)
	_ fleet.Versioner = (*Place)(nil)
	_ fleet.Keeper    = (*Place)(nil)
	_ fleet.Examiner  = (*Place)(nil)

	_ fleet.Credentialer = (*Place)(nil)
	_ fleet.Integrator   = (*Place)(nil)
)

// New creates a world.
func New(c Config) *Place {
	c.Traits.Name = cmp.Or(c.Traits.Name, "fake")
	c.Traits.Asks, c.Traits.KeepsVersions = !c.NoQuestions, true
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Projects == nil {
		c.Projects = DefaultProjects()
	}
	p := &Place{
		config: c, projects: sortProjects(c.Projects),
		byUID: map[string]*workspace{}, byID: map[string]*workspace{}, runs: map[string]*run{},
		runCounts: map[string]int{}, dispatchCounts: map[string]int{},
		buildFailures: map[string][]string{}, gates: map[string]*Gate{}, holdGates: map[hookPoint]*Gate{}, faults: map[hookPoint]*fault{},
		workOfDeleted: map[string]string{}, delays: map[Method]time.Duration{}, calls: map[Method]int{}, changing: map[string]Method{},
		mainCommits: map[string]string{}, commits: map[string]*commit{}, commitChecks: map[[3]string]fleet.CheckResult{},
	}
	for _, w := range c.Workspaces {
		p.AddWorkspace(w)
	}
	return p
}

func sortProjects(projects []Project) []Project {
	return slices.SortedFunc(slices.Values(projects), func(x, y Project) int { return cmp.Compare(x.Name, y.Name) })
}

// Traits returns the configured traits.
func (p *Place) Traits() fleet.Traits { return p.config.Traits }

// Projects returns the projects, sorted by name.
func (p *Place) Projects(ctx context.Context) (projects []fleet.Project, err error) {
	err = p.callLocked(ctx, Call{Method: Projects}, func() error {
		for _, proj := range p.projects {
			projects = append(projects, proj.Project)
		}
		return nil
	})
	return projects, err
}

// Roles returns the roles of the project.
func (p *Place) Roles(ctx context.Context, project string) (roles []fleet.Role, err error) {
	err = p.callLocked(ctx, Call{Method: Roles}, func() error {
		proj, err := p.project(project)
		roles = proj.roles()
		return err
	})
	return roles, err
}

// roles returns a copy of the roles of the project's newest version.
func (proj Project) roles() []fleet.Role {
	if len(proj.Roles) == 0 {
		return DefaultRoles()
	}
	return slices.Clone(proj.Roles)
}

// CheckStart checks whether the agent's workspace can be started with the changes in Agent.Next.
func (p *Place) CheckStart(ctx context.Context, a fleet.Agent) (role string, err error) {
	err = p.callLocked(ctx, Call{Method: CheckStart, Agent: a}, func() error {
		w := p.workspaceOf(a)
		if w == nil {
			return goneError(a)
		}
		_, role, err = p.nextRole(w, a)
		return err
	})
	return role, err
}

// nextRole returns the roles of the version with which the workspace is started next, and the role that the workspace will
// have. The world's mutex must be held.
func (p *Place) nextRole(w *workspace, a fleet.Agent) (roles []fleet.Role, role string, err error) {
	proj, err := p.project(w.Project)
	roles, role = w.roles, w.Role
	if a.Next.Update && err == nil || roles == nil {
		roles = proj.roles()
	}
	if a.Next.Role {
		role = a.Role
	}
	if !a.Next.Role && !a.Next.Update && !a.Next.Parameters || a.Config != nil {
		return roles, role, nil
	}
	found, err := fleet.FindRole(roles, w.Project, role)
	if err != nil {
		return nil, "", err
	}
	if a.Next.Parameters {
		err = proj.CheckParameters(found, a.Parameters)
	}
	return roles, found.Name, err
}

// applyNextStart makes the changes of the next start. The world's mutex must be held.
func (p *Place) applyNextStart(w *workspace, a fleet.Agent) error {
	roles, role, err := p.nextRole(w, a)
	if err != nil {
		return err
	}
	w.Role, w.roles = role, roles
	if a.Next.Update {
		w.Host.Outdated = false
	}
	return nil
}

// project returns the project with exactly this name. The world's mutex must be held.
func (p *Place) project(name string) (Project, error) {
	var names []string
	for _, proj := range p.projects {
		if proj.Name == name {
			return proj, nil
		}
		names = append(names, strconv.Quote(proj.Name))
	}
	return Project{}, fleet.Errorf(fleet.ReasonProjectNotFound, "there is no project %q: choose one of %s", name, cmp.Or(strings.Join(names, ", "), "none"))
}

// Provision creates the agent's workspace. If it exists, Provision returns it.
func (p *Place) Provision(ctx context.Context, a fleet.Agent) (ws fleet.Workspace, err error) {
	err = p.callLocked(ctx, Call{Method: Provision, Agent: a}, func() error {
		if w := p.workspaceOf(a); w != nil {
			p.finishBuild(w)
			ws = w.view()
			return nil
		}
		proj, err := p.project(a.Project)
		if err != nil && a.Config == nil {
			return fleet.Errorf(fleet.ReasonProvisioningFailed, "cannot create the workspace of agent %q: %s", a.Name, fleet.PublicMessage(err))
		}
		for _, w := range p.workspaces {
			if (w.Owner == a.Owner || p.config.Traits.UniqueNames) && strings.EqualFold(w.Name, a.Name) {
				return fleet.Errorf(fleet.ReasonAgentExists, "a workspace named %q already exists: choose another name", w.Name).With("field", "name")
			}
		}
		w := &workspace{startsItself: proj.SpecIsTask, roles: proj.roles(), Workspace: fleet.Workspace{
			Host:     fleet.HostFacts{Credential: p.Credential(a.Project)},
			AgentUID: a.UID, Name: a.Name, Owner: a.Owner, Project: a.Project, Role: a.Role, Spec: a.Spec,
			Metadata: map[string]string{"fleet_mcp_agent_spec": a.Spec},
		}}
		p.add(w)
		p.build(w)
		ws = w.view()
		return nil
	})
	return ws, err
}

// Start starts the agent's workspace, or a kept workspace of the agent, with the changes in Agent.Next.
func (p *Place) Start(ctx context.Context, a fleet.Agent) error {
	return p.callLocked(ctx, Call{Method: Start, Agent: a}, func() error {
		w := p.workspaceOf(a)
		if w == nil {
			w = p.restore(a)
		}
		if w == nil {
			return goneError(a)
		}
		p.finishBuild(w)
		switch w.State {
		case fleet.StateStopped, fleet.StateFailed, fleet.StateCanceled:
			if err := p.applyNextStart(w, a); err != nil {
				return err
			}
			p.build(w)
		}
		return nil
	})
}

// Stop stops the agent's workspace. The run in the workspace ends as stopped.
func (p *Place) Stop(ctx context.Context, a fleet.Agent) error {
	return p.callLocked(ctx, Call{Method: Stop, Agent: a}, func() error {
		w := p.workspaceOf(a)
		if w == nil {
			return goneError(a)
		}
		if w.State != fleet.StateStopped {
			p.halt(w, fleet.TaskStopped)
		}
		return nil
	})
}

// Delete destroys the agent's workspace. The run in the workspace ends as stopped. After KeepOnDelete,
// Delete keeps the workspace for Start. It leaves a hidden workspace alone.
func (p *Place) Delete(ctx context.Context, a fleet.Agent) (kept string, err error) {
	err = p.callLocked(ctx, Call{Method: Delete, Agent: a}, func() error {
		switch w := p.workspaceOf(a); {
		case w == nil:
		case w.hidden:
			kept = notShownReason + "; if it exists, it was not deleted"
		default:
			kept = w.keepReason
			p.destroy(w, fleet.TaskStopped)
			if kept != "" {
				w.keptAt, p.keptWorkspaces = p.config.Now(), append(p.keptWorkspaces, w)
			}
		}
		return nil
	})
	return kept, err
}

// Inspect returns the agent's workspace. The call counts as a poll for Config.BuildPolls.
func (p *Place) Inspect(ctx context.Context, a fleet.Agent) (ws fleet.Workspace, err error) {
	err = p.callLocked(ctx, Call{Method: Inspect, Agent: a}, func() error {
		w := p.workspaceOf(a)
		if w == nil {
			ws = fleet.Workspace{ID: a.WorkspaceID, State: fleet.StateDeleted, AgentUID: a.UID}
			return nil
		}
		if w.hidden {
			ws = fleet.Workspace{ID: a.WorkspaceID, State: fleet.StateUnhealthy, Missing: true, Reason: notShownReason, AgentUID: a.UID}
			return nil
		}
		p.finishBuild(w)
		ws = w.view()
		p.countPoll(w)
		return nil
	})
	return ws, err
}

// List returns all workspaces, oldest first. The call counts as a poll of each workspace for Config.BuildPolls.
func (p *Place) List(ctx context.Context) (all []fleet.Workspace, err error) {
	err = p.callLocked(ctx, Call{Method: List}, func() error {
		for _, w := range p.workspaces {
			if w.hidden {
				continue
			}
			p.finishBuild(w)
			all = append(all, w.view())
			p.countPoll(w)
		}
		return nil
	})
	return all, err
}

// Log returns the last n lines of the workspace's log. The log has the events of the workspace and the output of its
// runs.
func (p *Place) Log(ctx context.Context, a fleet.Agent, n int) (lines []string, truncated bool, err error) {
	err = p.callLocked(ctx, Call{Method: Log, Agent: a}, func() error {
		w := p.workspaceOf(a)
		if w == nil {
			return goneError(a)
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

// Close does nothing. Runs continue, and a restarted server can use the Place again. Destroy ends the runs.
func (p *Place) Close() error { return nil }

func goneError(a fleet.Agent) error {
	return fleet.Errorf(fleet.ReasonAgentNotFound, "the workspace of agent %q is gone: delete the agent and create it again", a.Name)
}

// MaxCost implements fleet.CostLimiter.
func (p *Place) MaxCost(_, role string) fleet.Micros { return p.config.MaxCosts[role] }

// Grant implements fleet.Delegator.
func (p *Place) Grant(project, role string) *fleet.Grant {
	return p.config.Grants[role].WithDefaults(project)
}

// Credential implements fleet.Credentialer.
func (p *Place) Credential(project string) string { return p.config.Credentials[project] }
