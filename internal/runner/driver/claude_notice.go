package driver

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"fleet/internal/fleet"
)

// claudeNotice is an event that is not part of the conversation but that people want to see.
type claudeNotice struct {
	Type    string       `json:"type"`
	Subtype string       `json:"subtype"`
	Limit   *claudeLimit `json:"rate_limit_info"`
	// Subtype api_retry: a request to the model failed and is repeated. Fleet's event gave_up also has HTTPStatus.
	Attempt    int    `json:"attempt"`
	MaxRetries int    `json:"max_retries"`
	DelayMS    int64  `json:"retry_delay_ms"`
	HTTPStatus int    `json:"error_status"`
	Error      string `json:"error"`
	// Subtype permission_denied: a rule denied a tool call.
	ToolUseID string `json:"tool_use_id"`
	Tool      string `json:"tool_name"`
	Message   string `json:"message"`
	Why       string `json:"decision_reason"`
	// Subtype compact_boundary: the conversation was summarised, because it had become too long.
	Compacted *struct {
		Trigger string `json:"trigger"`
		Before  int64  `json:"pre_tokens"`
		After   int64  `json:"post_tokens"`
	} `json:"compact_metadata"`
	// Subtype model_fallback: another model continues the turn.
	From string `json:"original_model"`
	To   string `json:"fallback_model"`
	// Subtype hook_response: a hook has ended.
	Hook     string `json:"hook_name"`
	Output   string `json:"output"`
	Stdout   string `json:"stdout"`
	Stderr   string `json:"stderr"`
	ExitCode int    `json:"exit_code"`
	// Subtypes task_started and task_notification: work in the background.
	TaskID      string `json:"task_id"`
	TaskType    string `json:"task_type"`
	Description string `json:"description"`
	Summary     string `json:"summary"`
	Status      string `json:"status"`
	Background  *bool  `json:"is_backgrounded"` // nil: an older version, which reports only work in the background
	// Subtype background_tasks_changed: all work that is in the background now.
	Tasks []struct {
		ID string `json:"task_id"`
	} `json:"tasks"` // a number in background_stopped
	// Subtype background_stopped, from Fleet's client: background work took too long.
	Seconds int `json:"seconds"`
}

// handleNotice records what the event says about limits, errors and background work. It returns steps if people want to see the event.
func (p *claudeParser) handleNotice(line []byte) []Piece {
	var n claudeNotice
	if err := json.Unmarshal(line, &n); err != nil && !isTypeError(err) {
		return nil
	}
	switch {
	case n.Type == "rate_limit_event":
		p.limit = n.Limit
		return p.limitSteps(n.Limit)
	case n.Subtype == "api_retry":
		p.apiError, p.unreachable = n.Error, n.HTTPStatus == 0
		return []Piece{n.retryStep()}
	case n.Subtype == "permission_denied":
		return p.denialSteps(n.ToolUseID, n.Tool, cmp.Or(n.Message, n.Why, "no rule allows it"))
	case n.Subtype == "compact_boundary" && n.Compacted != nil:
		c := &fleet.Compaction{Trigger: oneLine(n.Compacted.Trigger), Before: n.Compacted.Before, After: n.Compacted.After}
		return []Piece{stepPiece(fmt.Sprintf("the conversation was summarised (%s): %d tokens became %d", c.Trigger, c.Before, c.After),
			&fleet.Step{Type: fleet.StepCompaction, Compaction: c})}
	case n.Subtype == "hook_response":
		return []Piece{n.hookStep()}
	case n.Subtype == "task_started" && n.Background != nil && !*n.Background: // a command for which the turn waits
		p.foreground[n.TaskID] = true
	case n.Subtype == "background_tasks_changed":
		for _, t := range n.Tasks { // a command that takes long can move to the background
			delete(p.foreground, t.ID)
		}
	case n.Subtype == "task_notification" && p.foreground[n.TaskID]:
		delete(p.foreground, n.TaskID)
	case n.Subtype == "task_started", n.Subtype == "task_notification":
		return []Piece{n.backgroundStep()}
	case n.Subtype == "gave_up":
		return []Piece{warningStep(fmt.Sprintf("the model's API refuses the key (%d), so Fleet ends the run", n.HTTPStatus))}
	case n.Subtype == "model_fallback":
		return []Piece{warningStep(fmt.Sprintf("the model %s is overloaded: %s continues", n.From, n.To))}
	case n.Subtype == "background_stopped":
		return []Piece{warningStep(fmt.Sprintf("work in the background did not end within %s after the last answer, and was stopped", time.Duration(n.Seconds)*time.Second))}
	}
	return nil
}

// retryStep returns a step for a request to the model that failed and is repeated.
func (n *claudeNotice) retryStep() Piece {
	r := &fleet.RequestRetry{Attempt: n.Attempt, Limit: n.MaxRetries + 1, Delay: time.Duration(n.DelayMS) * time.Millisecond, Status: n.HTTPStatus, Error: oneLine(n.Error)}
	why := "unknown error"
	switch {
	case r.Status != 0:
		why = strings.TrimSpace(fmt.Sprintf("%d %s", r.Status, r.Error))
	case r.Error != "":
		why = r.Error
	}
	return stepPiece(fmt.Sprintf("the model's API refused a request (%s): attempt %d of %d follows in %s", why, r.Attempt+1, r.Limit, r.Delay.Round(100*time.Millisecond)),
		&fleet.Step{Type: fleet.StepRetry, Retry: r})
}

// hookStep returns a step for a hook that has ended.
func (n *claudeNotice) hookStep() Piece {
	s := &fleet.Step{Type: fleet.StepHook, Name: oneLine(n.Hook), IsError: n.ExitCode != 0}
	s.Message = truncate(s, strings.TrimSpace(cmp.Or(n.Output, n.Stdout+n.Stderr)))
	text := "hook " + s.Name
	if s.IsError {
		text += fmt.Sprintf(" failed with exit code %d", n.ExitCode)
	}
	if s.Message != "" {
		text += ": " + s.Message
	}
	return stepPiece(text, s)
}

// backgroundStep returns a step for work in the background that has begun or ended.
func (n *claudeNotice) backgroundStep() Piece {
	s := &fleet.Step{Type: fleet.StepBackground, ID: n.TaskID, Parent: n.ToolUseID, Name: oneLine(n.TaskType), Status: "started"}
	text := n.Description
	if n.Subtype == "task_notification" {
		text, s.Status = n.Summary, oneLine(n.Status)
	}
	s.Message = truncate(s, text)
	return stepPiece(s.Status+" in the background: "+s.Message, s)
}
