package acp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/coder/acp-go-sdk"

	"fleet/internal/runner/question"
)

// option is an answer that the program offers for its request for permission.
type option struct {
	ID   string `json:"optionId"`
	Kind string `json:"kind"`
	Name string `json:"name"`
}

// answerPermission answers a request for permission from the agent or from a subagent. It always answers, because the program
// waits for the answer without a time limit.
func (c *client) answerPermission(ctx context.Context, params json.RawMessage) (any, *acp.RequestError) {
	var p struct {
		Options []option `json:"options"`
		Call    call     `json:"toolCall"`
	}
	var raw struct {
		Call map[string]json.RawMessage `json:"toolCall"`
	}
	if err := errors.Join(json.Unmarshal(params, &p), json.Unmarshal(params, &raw)); err != nil {
		return nil, acp.NewInvalidParams(map[string]any{"error": err.Error()})
	}
	c.mu.Lock()
	p.Call.fillFrom(c.calls[p.Call.ID])
	cancelled := c.cancelling
	c.mu.Unlock()
	if cancelled {
		return permissionOutcome(""), nil
	}
	c.reportCall(raw.Call)
	allowed, decided, why := c.job.Policy.decide(p.Call)
	if !decided {
		c.addOpenRequests(1)
		allowed, why = c.askPeople(ctx, p.Call, why)
		c.addOpenRequests(-1)
		select {
		case <-c.quit:
			return permissionOutcome(""), nil
		default:
		}
	}
	c.out.write(Line{Type: LinePermissionAnswer, ID: p.Call.ID, Title: p.Call.Title, Allowed: allowed, Text: why, At: time.Now().UnixMilli()})
	return permissionOutcome(chooseOption(p.Options, allowed)), nil
}

// reportCall passes on the call that needs a permission. Some programs report the call only in this request.
func (c *client) reportCall(call map[string]json.RawMessage) {
	if len(call) == 0 {
		return
	}
	call["sessionUpdate"] = json.RawMessage(`"tool_call_update"`)
	if update, err := json.Marshal(call); err == nil { // it was decoded from JSON
		c.out.write(Line{Type: LinePermissionRequest, Update: update, At: time.Now().UnixMilli()})
	}
}

// askPeople asks people about a call that no rule of the job decides, and waits for their answer. If nobody can be asked, it
// denies the call. why is the reason for the denial if the job has no RunDir.
func (c *client) askPeople(ctx context.Context, p call, why string) (allowed bool, reason string) {
	if c.job.RunDir == "" {
		return false, why
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-c.quit:
			cancel()
		case <-ctx.Done():
		}
	}()
	q := question.Question{Kind: question.KindPermission, Tool: cmp.Or(p.toolName(), p.Kind), Text: p.Title, ToolKind: p.Kind, Input: p.RawInput}
	if q.Tool == "" || q.Tool == "other" {
		q.Tool, q.Text = cmp.Or(p.Title, "a tool"), ""
	}
	a, err := question.Ask(ctx, c.job.RunDir, q)
	switch {
	case err != nil:
		return false, "nobody can be asked: " + err.Error()
	case a.Allowed():
		return true, "allowed by " + a.By
	}
	return false, a.Reason()
}

// addOpenRequests adds n to the number of requests for permission that wait for people. It writes the state of the turn if that
// changes.
func (c *client) addOpenRequests(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.openRequests
	switch c.openRequests += n; {
	case before == 0 && c.openRequests > 0:
		c.out.write(Line{Type: LineState, State: StateRequiresAction})
	case before > 0 && c.openRequests == 0:
		c.out.write(Line{Type: LineState, State: StateRunning})
	}
}

// chooseOption returns the id of the option that allows or denies the call, preferably only this call. It returns an empty id
// if the program does not offer such an option.
func chooseOption(options []option, allowed bool) string {
	kinds := []acp.PermissionOptionKind{acp.PermissionOptionKindRejectOnce, acp.PermissionOptionKindRejectAlways}
	if allowed {
		kinds = []acp.PermissionOptionKind{acp.PermissionOptionKindAllowOnce, acp.PermissionOptionKindAllowAlways}
	}
	for _, kind := range kinds {
		for _, o := range options {
			if o.Kind == string(kind) {
				return o.ID
			}
		}
	}
	return ""
}

// permissionOutcome returns the answer that selects the option. If option is empty, the answer cancels the call.
func permissionOutcome(option string) acp.RequestPermissionResponse {
	if option == "" {
		return acp.RequestPermissionResponse{Outcome: acp.NewRequestPermissionOutcomeCancelled()}
	}
	return acp.RequestPermissionResponse{Outcome: acp.NewRequestPermissionOutcomeSelected(acp.PermissionOptionId(option))}
}
