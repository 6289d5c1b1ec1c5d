package fleet

import (
	"context"
	"time"
	"unicode/utf8"
)

// MaxSearch is the longest text that tasks can be searched for, in characters.
const MaxSearch = 200

// ListTasksRequest says which tasks; the zero value means all tasks of the fleet's agents.
type ListTasksRequest struct {
	Agent   string // of agents of this name, existing or deleted; "papi@alice" for alice's
	Status  TaskStatus
	Source  Source
	Project string
	Since   time.Time
	Text    string
	Toolset *Toolset // nil: of all toolsets
	PageRequest
}

// ListTasks returns a page of the tasks that match, newest first. A page beyond the end is empty.
func (s *Service) ListTasks(ctx context.Context, r ListTasksRequest) (*History, error) {
	p, err := PrincipalFrom(ctx)
	if err != nil {
		return nil, err
	}
	h, offset, count, err := newHistory(r.PageRequest)
	if err != nil {
		return nil, err
	}
	f, err := s.taskFilter(ctx, p, r)
	if err != nil {
		return nil, err
	}
	err = s.store.View(ctx, func(tx ReadTx) (err error) {
		h.Tasks, h.Total, err = tx.FindTasks(f, count, offset)
		if err != nil || h.Total > 0 || r.Project == "" {
			return err
		}
		return s.knownProject(ctx, tx, f)
	})
	h.number(offset)
	return h, err
}

// taskFilter is the request as the store understands it. An agent that never existed is an error.
func (s *Service) taskFilter(ctx context.Context, p Principal, r ListTasksRequest) (TaskFilter, error) {
	f := TaskFilter{Status: r.Status, Source: r.Source, Project: r.Project, Since: r.Since, Text: r.Text, Toolset: r.Toolset}
	if !p.Admin {
		f.Owner = p.Name
	}
	if err := r.checkValues(); err != nil {
		return f, err
	}
	if n := utf8.RuneCountInString(r.Text); n > MaxSearch {
		return f, Invalid(ReasonInvalidArgument, "text", "text has %d characters and the limit is %d", n, MaxSearch)
	}
	if err := checkSize("text", "text", r.Text); err != nil {
		return f, err
	}
	if r.Project != "" {
		if project, err := s.catalog.project(ctx, r.Project); err == nil {
			f.Project = project.Name
		}
	}
	if r.Agent == "" {
		return f, nil
	}
	name, owner := ParseAgentRef(r.Agent)
	f.AgentName = name
	if owner != "" {
		if !p.MaySee(owner) {
			return f, agentNotFound(r.Agent)
		}
		f.Owner = owner
	}
	if r.Toolset == nil || *r.Toolset != ToolsetFleet {
		return f, nil
	}
	return f, s.store.View(ctx, func(tx ReadTx) error {
		a, err := tx.NewestAgent(name, f.Owner)
		if err == nil && a == nil {
			err = agentNotFound(r.Agent)
		}
		return err
	})
}

// checkValues refuses values that no task can have.
func (r ListTasksRequest) checkValues() error {
	switch r.Status {
	case "", TaskPending, TaskRunning, TaskCompleted, TaskFailed, TaskStopped:
	default:
		return Invalid(ReasonInvalidArgument, "status", "status %q is not pending, running, completed, failed or stopped", r.Status)
	}
	switch r.Source {
	case "", SourceAgent, SourceHuman, SourceAIController:
	default:
		return Invalid(ReasonInvalidArgument, "source", "source %q is not agent, human or ai_controller", r.Source)
	}
	if r.Toolset == nil {
		return nil
	}
	switch *r.Toolset {
	case ToolsetFleet, ToolsetLifecycle, ToolsetSessions, ToolsetProviders, ToolsetSubagents:
		return nil
	}
	return Invalid(ReasonInvalidArgument, "toolset", "toolset %q is not fleet, lifecycle, providers, sessions, subagents or every", *r.Toolset)
}

// knownProject returns the catalog's error about a project that has no tasks, unless the project is there or was.
func (s *Service) knownProject(ctx context.Context, tx ReadTx, f TaskFilter) error {
	_, err := s.catalog.project(ctx, f.Project)
	if ReasonOf(err) != ReasonProjectNotFound {
		return err
	}
	_, ever, failed := tx.FindTasks(TaskFilter{Owner: f.Owner, Project: f.Project}, 0, 0)
	if failed != nil || ever > 0 {
		return failed
	}
	return asInvalid(err, "project")
}

// everAgent returns the uid of the agent that a caller means by ref; if there is none now, of the one deleted last.
func (s *Service) everAgent(ctx context.Context, ref string) (string, error) {
	v, p, err := s.agent(ctx, ref)
	if err == nil {
		return v.UID, nil
	}
	if ReasonOf(err) != ReasonAgentNotFound {
		return "", err
	}
	name, owner := ParseAgentRef(ref)
	owners := []string{owner}
	switch {
	case owner == "" && p.Admin:
		owners = []string{p.Name, ""} // its own before others'
	case owner == "":
		owners = []string{p.Name}
	case !p.MaySee(owner):
		return "", err
	}
	var a *Agent
	failed := s.store.View(ctx, func(tx ReadTx) (err error) {
		for _, o := range owners {
			if a, err = tx.NewestAgent(name, o); err != nil || a != nil {
				return err
			}
		}
		return nil
	})
	switch {
	case failed != nil:
		return "", failed
	case a == nil:
		return "", err
	}
	return a.UID, nil
}
