package service

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/state"
)

// RequestTaskStop requests the stop of a running task without waiting. If the task has ended, it does nothing.
func (s *Service) RequestTaskStop(ctx context.Context, id string) error {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return err
	}
	return s.requestTaskStopFor(ctx, p, id, stopReason(p), "stop requested by "+p.Name)
}

// requestTaskStopFor requests the stop of a running task for the reason, and writes the text to the event log.
func (s *Service) requestTaskStopFor(ctx context.Context, p fleet.Principal, id, reason, text string) error {
	return s.store.Update(ctx, func(tx fleet.Tx) error {
		t, err := s.task(tx, p, id, fleet.AccessRun)
		if err != nil || !t.Active() || !t.StopAsked.IsZero() {
			return err
		}
		return state.AskStop(tx, t, reason, text, s.now())
	})
}

// stopReason returns the text that a task gets as its StopReason when p stops it.
func stopReason(p fleet.Principal) string {
	switch {
	case p.AgentUID != "":
		return stopper(p)
	case p.Name != fleet.LocalPrincipal:
		return "stopped by " + p.Name
	case p.Kind == fleet.Controller:
		return "stopped by an AI controller on the server's machine"
	case p.Kind == fleet.AgentKind:
		return "stopped by an agent"
	}
	return "stopped by a user of the server's machine"
}

// MaxTaskTimeout is the longest time limit of a task.
const MaxTaskTimeout = 30 * 24 * time.Hour

// StartTaskRequest describes the task to start.
type StartTaskRequest struct {
	Agent, Description string
	Timeout            time.Duration // 0 means Config.TaskTimeout
	Checks             fleet.Checks  // in addition to the checks of the agent's project and role
	Options            fleet.TaskOptions
	Labels             fleet.Labels       `json:",omitempty"` // besides those of the agent
	Attachments        []fleet.Attachment `json:"-"`
	RequestID          string             `json:"-"`

	retryOf string // the task that is started again
}

// StartTask gives the agent a task and does not wait. From then on the task is running and the agent is busy. The error is
// AGENT_OFFLINE if the agent's workspace does not run, and AGENT_BUSY if the agent has a task.
func (s *Service) StartTask(ctx context.Context, r StartTaskRequest) (*fleet.Task, error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, err
	}
	r.Attachments = withMediaTypes(r.Attachments)
	if err := s.checkTask(r); err != nil {
		return nil, err
	}
	r.Options.Attachments = len(r.Attachments)
	c := Call{Method: "StartAgentTask", RequestID: r.RequestID, Body: r.body()}
	v, _, err := s.agent(ctx, r.Agent, fleet.AccessRun)
	c.Refused = err
	task, err := s.onceTask(ctx, c, func(tx fleet.Tx) (*fleet.Task, error) { return s.startTask(ctx, tx, p, v, r) })
	if err != nil {
		return nil, err
	}
	return asStarted(task), nil
}

// checkTask returns INVALID_ARGUMENT if a value of the request is not valid for any agent.
func (s *Service) checkTask(r StartTaskRequest) error {
	if err := checkText(fleet.ReasonTaskRequired, "task_description", "the task's description", r.Description); err != nil {
		return err
	}
	if r.Timeout < 0 || r.Timeout > MaxTaskTimeout {
		return fleet.Invalid(fleet.ReasonInvalidArgument, "timeout_seconds", "timeout_seconds is %d: give 1 to %d", int64(r.Timeout.Seconds()), int64(MaxTaskTimeout.Seconds()))
	}
	if err := r.Checks.Validate(); err != nil {
		return err
	}
	if err := r.Options.Validate(); err != nil {
		return err
	}
	if err := r.Labels.Validate("labels"); err != nil {
		return err
	}
	if r.Options.AppendSystemPrompt != "" {
		if err := checkText(fleet.ReasonInvalidArgument, fleet.OptionAppendSystemPrompt, fleet.OptionAppendSystemPrompt, r.Options.AppendSystemPrompt); err != nil {
			return err
		}
	}
	if err := fleet.CheckAttachments(r.Attachments); err != nil {
		return err
	}
	return s.checkSchema(r.Options.OutputSchema)
}

// checkSchema returns INVALID_ARGUMENT if the text is not a JSON Schema of an object. An empty text is no schema.
func (s *Service) checkSchema(text json.RawMessage) error {
	if len(text) == 0 {
		return nil
	}
	refuse := func(format string, args ...any) error {
		return fleet.Invalid(fleet.ReasonInvalidArgument, fleet.OptionOutputSchema, format, args...)
	}
	var top struct {
		Type any `json:"type"`
	}
	if err := json.Unmarshal(text, &top); err != nil || top.Type != "object" {
		return refuse(`output_schema is not a JSON Schema of an object: begin it with {"type": "object", "properties": ...}`)
	}
	if _, err := s.cfg.Schema(text); err != nil {
		return refuse("output_schema cannot be used: %s", fleet.Shorten(strings.Join(strings.Fields(err.Error()), " "), 500))
	}
	return nil
}

// startTask starts the task of the checked request. v is the agent as it was before the transaction.
func (s *Service) startTask(ctx context.Context, tx fleet.Tx, p fleet.Principal, v *fleet.AgentView, r StartTaskRequest) (*fleet.Task, error) {
	v, err := agentForUpdate(tx, p, v, fleet.AccessRun)
	if err != nil {
		return nil, err
	}
	a := &v.Agent
	if err := s.supports(p, a, r); err != nil {
		return nil, err
	}
	switch v.Status() {
	case fleet.StatusBusy:
		return nil, agentBusy(a.Name, v.Task)
	case fleet.StatusOffline:
		return nil, agentOffline(v)
	}
	if err := s.places.Of(a).Available(); err != nil {
		return nil, err
	}
	if err := admit(ctx, s.Limits(), tx, p, a.Owner, increase{tasks: 1, bytes: sizeOf(r.Attachments), project: a.Project}); err != nil {
		return nil, err
	}
	now := s.now()
	task := s.newTask(ctx, p, a, r.Description, r.Timeout, now)
	task.Options, task.RetryOf, task.Labels = r.Options, r.retryOf, a.Labels.With(r.Labels)
	if err := task.Labels.Validate("labels"); err != nil {
		return nil, err
	}
	if err := s.insertTask(tx, p, a, task); err != nil {
		return nil, err
	}
	if err := putTaskParts(tx, task.ID, r); err != nil {
		return nil, err
	}
	a.UpdatedAt = now
	return task, tx.Update(a)
}

// supports returns an error if p may not use the agent, or if the agent cannot do what the request asks for.
func (s *Service) supports(p fleet.Principal, a *fleet.Agent, r StartTaskRequest) error {
	if err := s.checkConfined(p, a); err != nil {
		return err
	}
	if t := s.places.Of(a).Traits(); len(r.Checks.Commands) > 0 && !t.Checks {
		return fleet.Errorf(fleet.ReasonUnimplemented, "agents of the place %q cannot run checks: leave checks out, and check the work of agent %q yourself", t.Name, a.Name)
	}
	return fleet.CheckOptions(s.places.Of(a).Place, *a, r.Options)
}

// putTaskParts stores what belongs to the task of the request.
func putTaskParts(tx fleet.Tx, id string, r StartTaskRequest) error {
	if r.Checks.IsSet() {
		if err := tx.Put(id, &fleet.TaskChecks{Asked: r.Checks}); err != nil {
			return err
		}
	}
	if len(r.Attachments) > 0 {
		return tx.Put(id, fleet.Attachments(r.Attachments))
	}
	return nil
}

// body returns the Body of the call, which has digests instead of the attachments.
func (r StartTaskRequest) body() any {
	digests := make([][3]string, len(r.Attachments))
	for i, a := range r.Attachments {
		digests[i] = a.Digest()
	}
	return []any{r, digests}
}

// withMediaTypes recognises the media types that the caller has left out.
func withMediaTypes(all []fleet.Attachment) []fleet.Attachment {
	all = slices.Clone(all)
	for i, a := range all {
		if a.MediaType == "" {
			all[i].MediaType, _, _ = strings.Cut(http.DetectContentType(a.Content), ";")
		}
	}
	return all
}

// sizeOf returns the size of the attachments, in bytes.
func sizeOf(all []fleet.Attachment) (n int) {
	for _, a := range all {
		n += len(a.Content)
	}
	return n
}

// asStarted returns the task as it was when it started, so that a repeated call gets the same response.
func asStarted(t *fleet.Task) *fleet.Task {
	c := *t
	c.Try, c.ReasonCode, c.RetryAt, c.Output, c.Spent = 0, "", time.Time{}, nil, fleet.Spent{}
	c.Status, c.EndedAt, c.Reason, c.Summary, c.PayloadSize, c.PayloadGap, c.CostUSD = fleet.TaskRunning, time.Time{}, "", "", 0, fleet.Gap{}, 0
	return &c
}

func agentBusy(name string, t *fleet.Task) *fleet.Error {
	if at := t.Options.Attached; at != nil {
		return fleet.Errorf(fleet.ReasonAgentBusy, "%s has been using the program of agent %q on a terminal since %s", at.By, name, t.StartedAt.UTC().Format("2006-01-02 15:04 MST")).
			Next("wait until they leave it with {wait_tasks}, or end it with {stop_agent_task}").With("agent_name", name).With("task_id", t.ID).With("attached", at.By)
	}
	return fleet.Errorf(fleet.ReasonAgentBusy, "agent %q already has a running task, %s (%s)", name, t.ID, t.Title()).
		Next("wait for it with {wait_tasks}, or stop it with {stop_agent_task}").With("agent_name", name).With("task_id", t.ID)
}

func agentOffline(v *fleet.AgentView) *fleet.Error {
	a := &v.Agent
	if a.Host.Closed != "" && a.State == fleet.StateRunning && a.Desired == fleet.DesiredRunning {
		return fleet.Errorf(fleet.ReasonAgentOffline, "agent %q accepts no tasks: %s", a.Name, a.Host.Closed).With("agent_name", a.Name).With("state", string(a.State)).
			Next("an operator can put it back and call {reload_config}, and {delete_agent} deletes the agent")
	}
	what, next := string(a.State), "{start_agent} starts it"
	switch {
	case a.State.Moving():
		next = "{show_agent} shows when it is ready"
	case a.State == fleet.StateUnhealthy && v.Task != nil:
		next = "its task may still run: {wait_tasks} waits for it, and {restart_agent} ends it"
	case a.State == fleet.StateUnhealthy:
		next = "{show_agent_log} shows why, and {restart_agent} starts it again"
	}
	if a.StateReason != "" {
		what += " (" + a.StateReason + ")"
	}
	return fleet.Errorf(fleet.ReasonAgentOffline, "agent %q is offline, its workspace is %s", a.Name, what).Next(next).
		With("agent_name", a.Name).With("state", string(a.State))
}

// noRunningTask returns the error for a call that needs a running task of the agent, if the agent has none.
func noRunningTask(v *fleet.AgentView) *fleet.Error {
	if v.Status() == fleet.StatusOffline {
		return agentOffline(v)
	}
	return fleet.Errorf(fleet.ReasonNoRunningTask, "agent %q has no running task", v.Name).With("agent_name", v.Name).
		Next("{show_agent_task_history} shows its earlier tasks")
}

// StopTask stops the agent's running task and waits for its end, at most Config.CreateWait. If the task ended by itself
// before the stop took effect, it keeps its own status.
func (s *Service) StopTask(ctx context.Context, ref, requestID string) (*fleet.Task, *fleet.AgentView, string, error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, nil, "", err
	}
	c := Call{Method: "StopAgentTask", RequestID: requestID, Body: ref}
	task, err := s.askStop(ctx, c, p, ref)
	if err != nil {
		return nil, nil, "", err
	}
	v, err := s.waitFor(ctx, task.AgentUID, s.cfg.CreateWait, func(v *fleet.AgentView) bool {
		return v.Task == nil || v.Task.ID != task.ID
	})
	if err != nil {
		return nil, nil, "", err
	}
	if task, err = s.earlierTask(ctx, CallResult{TaskID: task.ID}); err != nil {
		return nil, nil, "", err
	}
	switch task.Status {
	case fleet.TaskStopped:
		return task, v, "Task stopped successfully", nil
	case fleet.TaskCompleted, fleet.TaskFailed:
		return task, v, fmt.Sprintf("The task had %s by itself before the stop took effect", task.Status), nil
	}
	return task, v, "The task is being stopped and has not ended yet: show_task shows its status", nil
}

func (s *Service) askStop(ctx context.Context, c Call, p fleet.Principal, ref string) (*fleet.Task, error) {
	v, _, err := s.agent(ctx, ref, fleet.AccessRun)
	c.Refused = err
	return s.onceTask(ctx, c, func(tx fleet.Tx) (*fleet.Task, error) {
		v, err := agentForUpdate(tx, p, v, fleet.AccessRun)
		if err != nil {
			return nil, err
		}
		task := v.Task
		if task == nil {
			return nil, noRunningTask(v)
		}
		if !task.StopAsked.IsZero() {
			return task, nil
		}
		return task, s.askStopIn(tx, p, task)
	})
}

// askStopIn requests the stop of a running task.
func (s *Service) askStopIn(tx fleet.Tx, p fleet.Principal, t *fleet.Task) error {
	return state.AskStop(tx, t, stopReason(p), "stop requested by "+p.Name, s.now())
}

// newTask returns a running task of the agent.
func (s *Service) newTask(ctx context.Context, p fleet.Principal, a *fleet.Agent, prompt string, timeout time.Duration, now time.Time) *fleet.Task {
	if timeout == 0 {
		timeout = s.cfg.TaskTimeout
	}
	return &fleet.Task{
		ID: s.cfg.NewID(), AgentUID: a.UID, AgentName: a.Name, Owner: a.Owner, Description: prompt, Source: p.Source(),
		Status: fleet.TaskRunning, Timeout: timeout, CreatedAt: now, StartedAt: now, Trace: fleet.TraceFrom(ctx), Labels: a.Labels,
	}
}

// insertTask adds the task of the agent to the store. Everything that starts or queues a task comes here.
func (s *Service) insertTask(tx fleet.Tx, p fleet.Principal, a *fleet.Agent, t *fleet.Task) error {
	if p.TaskID != "" {
		if err := s.join(tx, p, a, t); err != nil {
			return err
		}
	}
	admit := func() error { return s.reserve(tx, a, t) }
	if t.Status == fleet.TaskPending {
		admit = func() error { return s.affordable(tx, a, t) }
	}
	if err := admit(); err != nil {
		return err
	}
	if err := tx.Insert(t); err != nil {
		return err
	}
	if t.Spent.Reserve != nil && a.Toolset == fleet.ToolsetFleet && t.Options.Attached == nil { // it may have to wait for a budget later
		if err := tx.Put(t.ID, &fleet.QueueEntry{Direct: true, By: p.Name, Kind: p.Kind, Scope: p.Scope}); err != nil {
			return err
		}
	}
	return tx.Append(t.Event(fleet.EventTaskCreated, t.CreatedAt, t.Title()))
}
