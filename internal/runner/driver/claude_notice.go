package driver

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// claudeNotice has the fields of events that tell people something besides the conversation.
type claudeNotice struct {
	Type    string       `json:"type"`
	Subtype string       `json:"subtype"`
	Limit   *claudeLimit `json:"rate_limit_info"`
	// Subtype api_retry: a request to the model failed and is repeated.
	Attempt    int    `json:"attempt"`
	MaxRetries int    `json:"max_retries"`
	DelayMS    int64  `json:"retry_delay_ms"`
	Status     int    `json:"error_status"`
	Error      string `json:"error"`
	// Subtype permission_denied: a rule denied a tool call.
	Tool    string `json:"tool_name"`
	Message string `json:"message"`
	Why     string `json:"decision_reason"`
	// Subtype compact_boundary: the conversation was summarised, because it had become too long.
	Compacted *struct {
		Trigger string `json:"trigger"`
		Before  int64  `json:"pre_tokens"`
		After   int64  `json:"post_tokens"`
	} `json:"compact_metadata"`
	// Subtype model_fallback.
	From string `json:"original_model"`
	To   string `json:"fallback_model"`
	// Subtype background_stopped, from Fleet's own process.
	Tasks   int `json:"tasks"`
	Seconds int `json:"seconds"`
}

// claudeLimit is the state of a limit of the subscription.
type claudeLimit struct {
	Status      string  `json:"status"` // allowed, allowed_warning or rejected
	Window      string  `json:"rateLimitType"`
	ResetsAt    int64   `json:"resetsAt"` // in seconds
	Utilization float64 `json:"utilization"`
}

// notice remembers what the event says about failures, and returns a step if people want to see the event.
func (p *claudeParser) notice(line []byte) []Piece {
	var n claudeNotice
	if err := json.Unmarshal(line, &n); err != nil && !wrongType(err) {
		return nil
	}
	switch {
	case n.Type == "rate_limit_event":
		p.limit = n.Limit
		return n.Limit.pieces()
	case n.Subtype == "api_retry":
		p.apiError, p.unreachable = n.Error, n.Status == 0
		text := fmt.Sprintf("the model's API refused a request (%s): attempt %d of %d follows in %s",
			cmp.Or(strings.TrimSpace(fmt.Sprintf("%s %s", number(n.Status), n.Error)), "unknown error"), n.Attempt+1, n.MaxRetries+1,
			(time.Duration(n.DelayMS) * time.Millisecond).Round(100*time.Millisecond))
		return warned(text)
	case n.Subtype == "gave_up":
		return warned(fmt.Sprintf("the model's API refuses the key (%d), so Fleet ends the run", n.Status))
	case n.Subtype == "permission_denied":
		return warned(fmt.Sprintf("denied: %s: %s", toolName(n.Tool), cmp.Or(n.Message, n.Why, "no rule allows it")))
	case n.Subtype == "compact_boundary" && n.Compacted != nil:
		return warned(fmt.Sprintf("the conversation was summarised (%s): %d tokens became %d", n.Compacted.Trigger, n.Compacted.Before, n.Compacted.After))
	case n.Subtype == "model_fallback":
		return warned(fmt.Sprintf("the model %s is overloaded: %s continues", n.From, n.To))
	case n.Subtype == "background_stopped":
		return warned(fmt.Sprintf("work in the background did not end within %s after the last answer, and was stopped", time.Duration(n.Seconds)*time.Second))
	}
	return nil
}

// resets returns when the window ends, or a zero time.
func (l *claudeLimit) resets() time.Time {
	if l.ResetsAt <= 0 {
		return time.Time{}
	}
	return time.Unix(l.ResetsAt, 0).UTC()
}

// pieces returns a step for a limit that is nearly or completely used up.
func (l *claudeLimit) pieces() []Piece {
	if l == nil || l.Status == "" || l.Status == "allowed" {
		return nil
	}
	text := fmt.Sprintf("the limit of the subscription (%s) is %.0f%% used", strings.ReplaceAll(cmp.Or(l.Window, "unknown window"), "_", " "), 100*l.Utilization)
	if l.Status == "rejected" {
		text = fmt.Sprintf("the limit of the subscription (%s) is used up", strings.ReplaceAll(cmp.Or(l.Window, "unknown window"), "_", " "))
	}
	if at := l.resets(); !at.IsZero() {
		text += "; it resets at " + at.Format(time.RFC3339)
	}
	return warned(text)
}

// warned returns a list with one warning.
func warned(text string) []Piece { return []Piece{warning(valid(text))} }

// number returns the number as a text, or an empty text for 0.
func number(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}
