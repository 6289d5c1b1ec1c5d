package service

import (
	"context"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"fleet/internal/fleet"
)

// MaxSearchText is the longest search text, in characters.
const MaxSearchText = 200

// ListTasksRequest selects tasks; the zero value selects all tasks that the caller may see.
type ListTasksRequest struct {
	Agent    string // name of an existing or deleted agent; "papi@alice" for alice's
	Last     bool   // with Agent: only tasks of the agent that has the name now or, if there is none, that had it last
	Root     string // id of a task: only it and the tasks below it
	Status   fleet.TaskStatus
	Source   fleet.Source
	Project  string
	Selector string // only tasks whose labels match, see fleet.ParseSelector
	Since    time.Time
	Text     string         // only tasks that contain it, see fleet.TaskFilter
	Toolset  *fleet.Toolset // nil means all toolsets
	fleet.PageRequest
}

// ListTasks returns a page of the matching tasks, newest first. A page beyond the end is empty.
func (s *Service) ListTasks(ctx context.Context, r ListTasksRequest) (*TaskPage, error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, err
	}
	var after string
	r.Cursor, after, _ = strings.Cut(r.Cursor, ".")
	page, offset, limit, err := newTaskPage(r.PageRequest)
	if err != nil {
		return nil, err
	}
	w := fleet.TaskWindow{Limit: limit, Offset: offset, After: after, Count: s.cfg.MaxCounted}
	if r.Text != "" {
		w.Count = s.cfg.MaxCounted / 10
	}
	f, projectErr, err := s.taskFilter(ctx, p, r)
	if err != nil {
		return nil, err
	}
	var found fleet.FoundTasks
	err = s.store.View(ctx, func(tx fleet.ReadTx) (err error) {
		if found, err = tx.FindTasks(f, w); err == nil {
			_, err = workOf(tx, found.Tasks)
		}
		if err != nil || found.Total > 0 || r.Project == "" {
			return err
		}
		return checkProject(tx, f, projectErr)
	})
	page.Tasks, page.Total, page.More = found.Tasks, found.Total, found.More
	page.setPages(offset)
	if n := len(page.Tasks); found.AtEnd || n == 0 {
		page.Next = ""
	} else if page.Next == "" || offset+n >= w.Count { // the count ends here, and with an offset alone the next page would be slow
		page.Next = strconv.Itoa(offset+n) + "." + page.Tasks[n-1].ID
	}
	return page, err
}

// taskFilter converts the request to the store's filter. projectErr is the catalog's error about the project of the request;
// nil if the project exists. If the request selects tasks of ToolsetFleet, err is AGENT_NOT_FOUND for an agent that never
// existed.
func (s *Service) taskFilter(ctx context.Context, p fleet.Principal, r ListTasksRequest) (f fleet.TaskFilter, projectErr, err error) {
	if f.Selector, err = fleet.ParseSelector("selector", r.Selector); err != nil {
		return f, nil, err
	}
	f = fleet.TaskFilter{Selector: f.Selector, Status: r.Status, Source: r.Source, Project: r.Project, Since: r.Since, Text: r.Text, Toolset: r.Toolset}
	if err := r.checkValues(); err != nil {
		return f, nil, err
	}
	if n := utf8.RuneCountInString(r.Text); n > MaxSearchText {
		return f, nil, fleet.InvalidField("text", "text has %d characters and the limit is %d", n, MaxSearchText)
	}
	if err := checkOptionalText("text", "text", r.Text); err != nil {
		return f, nil, err
	}
	if r.Root != "" {
		root, err := viewTask(ctx, s, strings.TrimSpace(r.Root), func(_ fleet.ReadTx, t *fleet.Task) (*fleet.Task, error) { return t, nil })
		if err != nil {
			return f, nil, err
		}
		f.RootID = root.ID
	}
	if r.Project != "" {
		match, place, err := s.places.MatchFleetProjects(ctx, r.Project)
		if f.Place, projectErr = place, err; err == nil {
			f.Project = match[0].Name
		}
	}
	if r.Last {
		if r.Agent == "" {
			return f, nil, fleet.InvalidField("last_agent", "last_agent needs agent_name: name the agent, or leave last_agent out")
		}
		f.AgentUID, err = s.lastAgentUID(ctx, r.Agent, fleet.AccessView)
		return f, projectErr, err
	}
	sel, err := s.selectAgents(ctx, p, r.Agent)
	f.AgentName, f.Owner, f.SharedUIDs, f.Projects, f.AgentUID = sel.name, sel.owner, sel.sharedUIDs, sel.projects, sel.uid
	if err != nil || r.Agent == "" || sel.uid != "" || r.Toolset == nil || *r.Toolset != fleet.ToolsetFleet {
		return f, projectErr, err
	}
	return f, projectErr, s.store.View(ctx, func(tx fleet.ReadTx) error {
		a, err := fleet.First(tx.Agents(fleet.AgentFilter{Name: sel.name, Owner: f.Owner, Newest: true}))
		if err == nil && a == nil && s.snap.Shares().Named(p, sel.name, "") == nil {
			err = fleet.AgentNotFound(r.Agent)
		}
		return err
	})
}

// checkValues refuses values that no task can have.
func (r ListTasksRequest) checkValues() error {
	switch r.Status {
	case "", fleet.TaskPending, fleet.TaskRunning, fleet.TaskCompleted, fleet.TaskFailed, fleet.TaskStopped:
	default:
		return fleet.InvalidField("status", "status %q is not pending, running, completed, failed or stopped", r.Status)
	}
	switch r.Source {
	case "", fleet.SourceAgent, fleet.SourceHuman, fleet.SourceAIController:
	default:
		return fleet.InvalidField("source", "source %q is not agent, human or ai_controller", r.Source)
	}
	if r.Toolset == nil {
		return nil
	}
	switch *r.Toolset {
	case fleet.ToolsetFleet, fleet.ToolsetLifecycle, fleet.ToolsetSessions, fleet.ToolsetProviders, fleet.ToolsetSubagents:
		return nil
	}
	return fleet.InvalidField("toolset", "toolset %q is not fleet, lifecycle, providers, sessions, subagents or every", *r.Toolset)
}

// checkProject returns an error if the filter's project does not exist and the caller may see no task of it. projectErr is the
// catalog's error about the project; nil if the project exists.
func checkProject(tx fleet.ReadTx, f fleet.TaskFilter, projectErr error) error {
	if fleet.ReasonOf(projectErr) != fleet.ReasonProjectNotFound {
		return projectErr
	}
	found, findErr := tx.FindTasks(fleet.TaskFilter{Owner: f.Owner, SharedUIDs: f.SharedUIDs, Projects: f.Projects, Place: f.Place, Project: f.Project}, fleet.TaskWindow{})
	if findErr != nil || !found.AtEnd {
		return findErr
	}
	return asInvalid(projectErr, "project")
}

// TaskPage is a page of tasks, newest first.
type TaskPage struct {
	Tasks                        []*fleet.Task
	Total, Page, PageSize, Pages int
	More                         bool   // there may be more tasks than Total; Pages is computed from Total
	Next                         string // cursor of the next page; "" on the last one
}

// TaskHistory returns a page of the agent's tasks, newest first. If no existing agent has the name, it returns the tasks of the
// agent of that name that was deleted last. A page beyond the end is empty.
func (s *Service) TaskHistory(ctx context.Context, ref string, r fleet.PageRequest) (*TaskPage, error) {
	page, offset, limit, err := newTaskPage(r)
	if err != nil {
		return nil, err
	}
	uid, err := s.lastAgentUID(ctx, ref, fleet.AccessView)
	if err != nil {
		return nil, err
	}
	err = s.store.View(ctx, func(tx fleet.ReadTx) (err error) {
		page.Tasks, page.Total, err = tx.Tasks(uid, limit, offset)
		return err
	})
	page.setPages(offset)
	return page, err
}

// newTaskPage returns the requested page without its tasks. The page has count tasks and begins after the first offset tasks.
func newTaskPage(r fleet.PageRequest) (page *TaskPage, offset, count int, err error) {
	number, size, err := r.Resolve(fleet.DefaultPageSize)
	if err != nil {
		return nil, 0, 0, err
	}
	if offset, count, err = r.Window(fleet.DefaultPageSize); err != nil {
		return nil, 0, 0, err
	}
	if r.Cursor != "" {
		number = offset/size + 1
	}
	return &TaskPage{Page: number, PageSize: size}, offset, count, nil
}

// setPages sets Next and Pages, which depend on Total.
func (p *TaskPage) setPages(offset int) {
	p.Next = fleet.NextCursor(offset, len(p.Tasks), p.Total)
	p.Pages = (p.Total + p.PageSize - 1) / p.PageSize
}
