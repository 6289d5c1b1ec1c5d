package service

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"fleet/internal/fleet"
)

// MaxTaskTimeout is the longest time limit of a task.
const MaxTaskTimeout = 30 * 24 * time.Hour

// StartTaskRequest describes a task and names the agent that works on it.
type StartTaskRequest struct {
	Agent, Description string
	Timeout            time.Duration // 0 means state.Config.TaskTimeout
	Checks             fleet.Checks  // in addition to the checks of the agent's project and role
	Options            fleet.TaskOptions
	Labels             fleet.Labels       `json:",omitempty"` // besides those of the agent
	Attachments        []fleet.Attachment `json:"-"`
	RequestID          string             `json:"-"`

	retryOf string // id of the task that is started again; empty: none
}

// StartTask gives the agent a task and does not wait for it. The returned task is running, and the agent is busy. The error is
// AGENT_OFFLINE if the agent's workspace does not run, and AGENT_BUSY if the agent has a task.
func (s *Service) StartTask(ctx context.Context, r StartTaskRequest) (*fleet.Task, error) {
	r.Attachments = withMediaTypes(r.Attachments)
	if err := s.checkTaskRequest(r); err != nil {
		return nil, err
	}
	r.Options.Attachments = len(r.Attachments)
	v, _, err := s.agent(ctx, r.Agent, fleet.AccessRun)
	c := Call{Method: "StartAgentTask", RequestID: r.RequestID, Body: r.callBody(), Refusal: err}
	task, err := s.onceTask(ctx, c, func(tx fleet.Tx, p fleet.Principal) (*fleet.Task, error) { return s.startTask(ctx, tx, p, v, r) })
	if err != nil {
		return nil, err
	}
	return asStarted(task), nil
}

// checkTaskRequest returns INVALID_ARGUMENT if a value of the request is not valid for any agent.
func (s *Service) checkTaskRequest(r StartTaskRequest) error {
	if err := checkText(fleet.ReasonTaskRequired, "task_description", "the task's description", r.Description); err != nil {
		return err
	}
	if r.Timeout < 0 || r.Timeout > MaxTaskTimeout {
		return fleet.InvalidField("timeout_seconds", "timeout_seconds is %d: give 1 to %d", int64(r.Timeout.Seconds()), int64(MaxTaskTimeout.Seconds()))
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

// checkSchema returns INVALID_ARGUMENT if the text is not a JSON Schema of an object. It accepts an empty text, which means that there
// is no schema.
func (s *Service) checkSchema(text json.RawMessage) error {
	if len(text) == 0 {
		return nil
	}
	var top struct {
		Type any `json:"type"`
	}
	if err := json.Unmarshal(text, &top); err != nil || top.Type != "object" {
		return fleet.InvalidField(fleet.OptionOutputSchema, `output_schema is not a JSON Schema of an object: begin it with {"type": "object", "properties": ...}`)
	}
	if _, err := s.cfg.Schema(text); err != nil {
		return fleet.InvalidField(fleet.OptionOutputSchema, "output_schema cannot be used: %s", fleet.Shorten(strings.Join(strings.Fields(err.Error()), " "), 500))
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
	if err := s.checkSupported(p, a, r); err != nil {
		return nil, err
	}
	switch v.Status() {
	case fleet.StatusBusy:
		return nil, errAgentBusy(a.Name, v.Task)
	case fleet.StatusOffline:
		return nil, errAgentOffline(v)
	}
	if err := s.places.Of(a).Available(); err != nil {
		return nil, err
	}
	if err := admit(ctx, s.Limits(), tx, p, a.Owner, increase{tasks: 1, bytes: attachmentsSize(r.Attachments), project: a.Project}); err != nil {
		return nil, err
	}
	task, err := s.requestedTask(ctx, p, a, r)
	if err == nil {
		task.Delegation.Conversation = a.Conversation
		err = s.insertRequestedTask(tx, p, a, task, r)
	}
	if err != nil {
		return nil, err
	}
	a.UpdatedAt = task.CreatedAt
	return task, tx.Update(a)
}

// requestedTask returns a new running task for the request, with the labels of the agent and those of the request. It does not store it.
func (s *Service) requestedTask(ctx context.Context, p fleet.Principal, a *fleet.Agent, r StartTaskRequest) (*fleet.Task, error) {
	t := s.newTask(ctx, p, a, r.Description, r.Timeout, s.now())
	t.Options, t.RetryOf, t.Labels = r.Options, r.retryOf, a.Labels.With(r.Labels)
	return t, t.Labels.Validate("labels")
}

// checkSupported returns an error if p may not use the agent, or if the agent cannot do what the request asks for.
func (s *Service) checkSupported(p fleet.Principal, a *fleet.Agent, r StartTaskRequest) error {
	if err := s.checkConfined(p, a); err != nil {
		return err
	}
	if t := s.places.Of(a).Traits(); len(r.Checks.Commands) > 0 && !t.SupportsChecks {
		return fleet.Errorf(fleet.ReasonUnimplemented, "agents of the place %q cannot run checks: leave checks out, and check the work of agent %q yourself", t.Name, a.Name)
	}
	return fleet.CheckOptions(s.places.Of(a).Place, *a, r.Options)
}

// asStarted returns a copy of the task as it was when it started, so that a repeated call gets the same response.
func asStarted(t *fleet.Task) *fleet.Task {
	c := *t
	c.Try, c.ReasonCode, c.RetryAt, c.Output, c.Spending = 0, "", time.Time{}, nil, fleet.Spending{}
	c.Status, c.EndedAt, c.Reason, c.Summary, c.PayloadSize, c.PayloadGap, c.CostUSD = fleet.TaskRunning, time.Time{}, "", "", 0, fleet.Gap{}, 0
	return &c
}

// insertRequestedTask adds the task of the request to the store, with its checks and attachments.
func (s *Service) insertRequestedTask(tx fleet.Tx, p fleet.Principal, a *fleet.Agent, t *fleet.Task, r StartTaskRequest) error {
	if err := s.insertTask(tx, p, a, t); err != nil {
		return err
	}
	if r.Checks.IsSet() {
		if err := tx.Put(t.ID, &fleet.TaskChecks{Requested: r.Checks}); err != nil {
			return err
		}
	}
	if len(r.Attachments) > 0 {
		return tx.Put(t.ID, fleet.Attachments(r.Attachments))
	}
	return nil
}

// callBody returns the Body of the call: the request, with digests of the attachments instead of their contents.
func (r StartTaskRequest) callBody() any {
	digests := make([][3]string, len(r.Attachments))
	for i, a := range r.Attachments {
		digests[i] = a.Digest()
	}
	return []any{r, digests}
}

// withMediaTypes returns copies of the attachments. Those without a media type get the one that their contents suggest.
func withMediaTypes(all []fleet.Attachment) []fleet.Attachment {
	all = slices.Clone(all)
	for i, a := range all {
		if a.MediaType == "" {
			all[i].MediaType, _, _ = strings.Cut(http.DetectContentType(a.Content), ";")
		}
	}
	return all
}

// attachmentsSize returns the size of the attachments, in bytes.
func attachmentsSize(all []fleet.Attachment) (n int) {
	for _, a := range all {
		n += len(a.Content)
	}
	return n
}
