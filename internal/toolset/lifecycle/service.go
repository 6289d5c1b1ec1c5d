// Package lifecycle is the toolset of agents that work on one contract each. A caller starts an agent and asks for its
// progress, and the agent reports that it is done. A contract is one task on an agent of its own and follows the rules
// of the core.
//
// Package rpc calls this package. This package calls package service, and must never call a place or another toolset.
package lifecycle

import (
	"context"
	"fmt"
	"strings"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/service"
)

// Status says whether the agent of a contract runs, or how it ended.
type Status string

// These are the statuses of an agent.
const (
	Running   Status = "running"
	Stopped   Status = "stopped" // it was stopped or failed
	Completed Status = "completed"
)

// Completion says how Fleet learned that a contract was fulfilled.
type Completion string

// These are the kinds of completion. The completion is empty while the agent runs, and also if the run was stopped or
// failed without a report.
const (
	Reported Completion = "reported" // the agent reported it
	Inferred Completion = "inferred" // the run ended without an error
)

// Agent is an agent with the progress of its contract.
type Agent struct {
	ID          string
	TaskID      string
	Known       bool // whether the agent exists and the caller may change it; otherwise only ID is set
	Status      Status
	StartedAt   time.Time
	EndedAt     time.Time // when the agent ended; zero while it runs
	Summary     string    // the agent's report about its work
	Completion  Completion
	Reason      string // why the agent was stopped or failed
	Preview     string // the end of the output; set only while the agent runs
	PayloadSize int    // size of the payload before compression, in bytes
	CostUSD     float64
	Checks      *fleet.TaskChecks // nil if there are no checks
	Title       string            // first line of the contract; set only by List
	Work        string            // tells people where the work of an ended agent is; empty if nothing is kept
}

// Service starts agents on contracts and reports their progress.
type Service struct {
	core *service.Service
	cfg  Config
	// needsDocument is true if the driver needs a document that defines the agent.
	needsDocument bool
	restURL       func() string
}

// New returns the toolset over the core. restURL returns the address of this server's REST face without a trailing slash;
// "" if the server has no REST face. PayloadURL uses it.
func New(core *service.Service, cfg Config, restURL func() string) *Service {
	var t fleet.Traits
	if cfg.Place != "" {
		t, _ = core.TraitsOf(cfg.Place)
	}
	cfg = cfg.withDefaults(t)
	if cfg.Place == "" {
		t, _ = core.TraitsWithDriver(cfg.Driver)
	}
	d, _ := t.Driver(cfg.Driver)
	return &Service{core: core, cfg: cfg, needsDocument: d.NeedsDocument, restURL: restURL}
}

// StartRequest asks for an agent that works on a contract.
type StartRequest struct {
	Contract string
	// Project and Role select a project of the fleet, and a role in it. If they are empty, those of Config are used.
	Project, Role string
	RequestID     string
}

// Start creates an agent and starts it on the contract. It does not wait for the end of the contract.
func (s *Service) Start(ctx context.Context, r StartRequest) (*Agent, error) {
	contract := r.Contract
	if strings.ContainsRune(contract, 0) {
		return nil, fleet.InvalidField("contract", "the contract contains a NUL character, which agents cannot receive: remove the character")
	}
	if strings.TrimSpace(contract) == "" {
		return nil, fleet.Invalid(fleet.ReasonTaskRequired, "contract", "the contract is empty: say what the agent has to deliver")
	}
	if len(contract) > fleet.MaxText {
		return nil, fleet.InvalidField("contract", "the contract has %d bytes, and the limit is %d: put the rest into a file the agent can read", len(contract), fleet.MaxText)
	}
	cfg, err := s.cfg.withProject(r.Project, r.Role)
	if err != nil {
		return nil, err
	}
	id := s.core.NewID()
	v, err := s.core.Launch(ctx, service.LaunchRequest{
		Method: "AgentStart", Toolset: fleet.ToolsetLifecycle, Place: cfg.Place, Project: cfg.Project, Role: cfg.Role,
		UID: id, Spec: cfg.spec(id), Config: s.agentConfig(cfg, id), OneTask: true, Prompt: contract,
		Timeout: cfg.Timeout, RequestID: r.RequestID, Body: []string{contract, r.Project, r.Role},
		Admit: s.admit,
	})
	if err != nil {
		return nil, err
	}
	a := agentOf(v.UID, v, "")
	a.Status, a.EndedAt = Running, time.Time{} // a repeated request gets the same answer, even if the agent has ended since
	return a, nil
}

// admit returns LIMIT_REACHED if the principal has too many running contracts.
func (s *Service) admit(tx fleet.Tx, principal string) error {
	limit := s.cfg.MaxRunning
	holdings, err := tx.Holdings(principal, fleet.Limits{Agents: limit}, fleet.HoldingsScope{Toolset: new(fleet.ToolsetLifecycle)})
	if err != nil || holdings.AllAgents() < limit {
		return err
	}
	// Agents of ended contracts may still exist, until their last run and their files are gone.
	running := fleet.TaskFilter{Owner: principal, Toolset: new(fleet.ToolsetLifecycle), Status: fleet.TaskRunning}
	found, err := tx.FindTasks(running, fleet.TaskWindow{Count: limit})
	if err != nil || found.Total < limit {
		return err
	}
	return fleet.LimitReached("lifecycle.max_running", "you have", int64(found.Total), int64(limit), "running contracts", "{agent_stop} stops one")
}

// agentConfig returns the configuration of the agent. It is short for an agent that a project defines.
func (s *Service) agentConfig(c Config, id string) *fleet.AgentConfig {
	ac := &fleet.AgentConfig{Driver: c.Driver, Reports: true, MayEdit: c.Allow == nil, KeepFilesFor: max(c.Keep, 0)}
	if c.Driver == "" {
		return ac // the project defines the agent, and its spec is the system prompt
	}
	ac.SystemPrompt, ac.Model, ac.Command, ac.Allow, ac.Deny = systemPrompt(id), c.Model, c.Command, c.Allow, c.Deny
	ac.Ask, ac.AskTimeout = c.Ask, c.AskTimeout
	ac.PassEnv, ac.Document = c.PassEnv, c.Document
	if s.needsDocument && ac.Document == "" {
		ac.Document = fmt.Sprintf("version: \"2\"\nagents:\n  root:\n    model: %q\n    description: works on one contract\n    instruction: Do what the contract says.\n", c.Model)
		ac.Model = ""
	}
	return ac
}

// MaxIDs is how many agents one call can ask about.
const MaxIDs = 1000

// Status returns the progress of the agents, in the order of the ids. An agent that the caller may not change is included,
// with Known unset.
func (s *Service) Status(ctx context.Context, ids []string) ([]*Agent, error) {
	if len(ids) == 0 {
		return nil, fleet.InvalidField("agent_ids", "agent_ids is empty").Next("{agent_start} gives ids")
	}
	if len(ids) > MaxIDs {
		return nil, fleet.InvalidField("agent_ids", "agent_ids has %d ids: give at most %d, and call again for the others", len(ids), MaxIDs)
	}
	views, previews, err := s.core.AgentsByUID(ctx, ids)
	if err != nil {
		return nil, err
	}
	agents := make([]*Agent, len(ids))
	for i, id := range ids {
		agents[i] = s.withWork(agentOf(id, views[i], previews[i]), views[i])
	}
	return agents, nil
}

// ListResult is a page of agents, one for each contract.
type ListResult struct {
	Agents                       []*Agent
	Total, Page, PageSize, Pages int
	More                         bool   // there may be more than Total
	Next                         string // cursor of the next page; "" on the last one
}

// List returns a page of the contracts that the caller may see, newest first.
func (s *Service) List(ctx context.Context, page fleet.PageRequest) (*ListResult, error) {
	toolset := fleet.ToolsetLifecycle
	tasks, err := s.core.ListTasks(ctx, service.ListTasksRequest{Toolset: &toolset, PageRequest: page})
	if err != nil {
		return nil, err
	}
	l := &ListResult{Agents: []*Agent{}, Total: tasks.Total, Page: tasks.Page, PageSize: tasks.PageSize, Pages: tasks.Pages, More: tasks.More, Next: tasks.Next}
	if len(tasks.Tasks) == 0 {
		return l, nil
	}
	ids := make([]string, len(tasks.Tasks))
	for i, t := range tasks.Tasks {
		ids[i] = t.AgentUID
	}
	if l.Agents, err = s.Status(ctx, ids); err != nil {
		return nil, err
	}
	for i, a := range l.Agents {
		a.Preview, a.Title = "", tasks.Tasks[i].Title()
	}
	return l, nil
}

// withWork sets a.Work if the agent has ended. Work names the directory where the agent worked or, after its workspace was
// deleted, the reason that the deletion recorded.
func (s *Service) withWork(a *Agent, v *fleet.AgentView) *Agent {
	if !a.Known || a.Status == Running {
		return a
	}
	if !v.DeletedAt.IsZero() {
		a.Work = v.StateReason
		return a
	}
	t, ok := s.core.TraitsOf(v.Place)
	branch := v.Metadata["branch"]
	switch {
	case !ok || !t.KeepsFiles || v.Location == "":
	case branch != "":
		a.Work = fmt.Sprintf("it worked in %s, a working copy of %s on the branch %s", v.Location, v.Metadata["repository"], branch)
	default:
		a.Work = "it worked in " + v.Location
	}
	return a
}

// agentOf returns the progress of the agent in v. If v is nil, has no task, or is an agent of another toolset, the agent is
// unknown.
func agentOf(id string, v *fleet.AgentView, preview string) *Agent {
	if v == nil || v.Toolset != fleet.ToolsetLifecycle || v.Task == nil {
		return &Agent{ID: id}
	}
	t := v.Task
	a := &Agent{
		ID: id, TaskID: t.ID, Known: true, StartedAt: t.StartedAt, EndedAt: t.EndedAt, Summary: t.Summary, Reason: t.Reason, Preview: preview,
		CostUSD: t.CostUSD, Checks: v.Checks,
	}
	if !t.PayloadRemoved {
		a.PayloadSize = t.PayloadSize
	}
	switch t.Status {
	case fleet.TaskCompleted:
		a.Status = Completed
	case fleet.TaskStopped, fleet.TaskFailed:
		a.Status = Stopped
	case fleet.TaskPending, fleet.TaskRunning:
		a.Status = Running
	}
	switch {
	case t.Reported:
		a.Completion = Reported
	case a.Status == Completed:
		a.Completion = Inferred
	}
	return a
}

// Complete records the agent's report that its contract is fulfilled. It does not change an agent that has ended.
func (s *Service) Complete(ctx context.Context, id, summary, payload string) (*Agent, error) {
	switch {
	case strings.TrimSpace(summary) == "":
		return nil, fleet.InvalidField("summary", "the summary is empty: say in a few sentences what was done")
	case len(summary) > fleet.MaxText:
		return nil, fleet.InvalidField("summary", "the summary has %d bytes, and the limit is %d: put the rest into the payload", len(summary), fleet.MaxText)
	}
	if err := s.checkContract(ctx, id); err != nil {
		return nil, err
	}
	t, err := s.core.CompleteByUID(ctx, id, summary, []byte(payload), s.cfg.MaxPayload)
	return endedAgent(id, t, err)
}

// Stop stops the agent. After Stop returns, the agent sends no new request to its model. Stop does not change an agent
// that has ended.
func (s *Service) Stop(ctx context.Context, id string) (*Agent, error) {
	if err := s.checkContract(ctx, id); err != nil {
		return nil, err
	}
	t, err := s.core.StopByUID(ctx, id)
	return endedAgent(id, t, err)
}

// endedAgent returns the progress of the agent whose task is t, or err if it is not nil.
func endedAgent(id string, t *fleet.Task, err error) (*Agent, error) {
	if err != nil {
		return nil, err
	}
	return agentOf(id, &fleet.AgentView{Agent: fleet.Agent{Toolset: fleet.ToolsetLifecycle}, Task: t}, ""), nil
}

// checkContract returns AGENT_NOT_FOUND unless the agent belongs to a contract and the caller may change it.
func (s *Service) checkContract(ctx context.Context, id string) error {
	if id == "" {
		return noIDError()
	}
	views, _, err := s.core.AgentsByUID(ctx, []string{id})
	if err == nil && (views[0] == nil || views[0].Toolset != fleet.ToolsetLifecycle) {
		err = NotFoundError(id)
	}
	return err
}

func noIDError() *fleet.Error {
	return fleet.InvalidField("agent_id", "agent_id is required").Next("{agent_start} gives ids")
}

// NotFoundError returns the error for an agent that does not exist.
func NotFoundError(id string) *fleet.Error {
	id = fleet.Shorten(id, 60)
	return fleet.Errorf(fleet.ReasonAgentNotFound, "agent %q not found", id).With("agent_id", id).Next("{agent_list} shows the agents")
}
