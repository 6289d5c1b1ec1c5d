package conversation

import (
	"encoding/json"
	"slices"

	"fleet/internal/fleet"
)

// Warnings are the warnings of a task, for example that an MCP server did not start, without repetitions.
type Warnings []string

// Event adds the warning that the event reports, if it reports one. It is a sink for FollowTask, and always returns nil.
func (w *Warnings) Event(e fleet.Event) error {
	var step struct{ Type, Message string }
	if e.Type == fleet.EventTaskStep && json.Unmarshal(e.Data, &step) == nil && step.Type == "warning" {
		w.Add(step.Message)
	}
	return nil
}

// Add adds a warning.
func (w *Warnings) Add(text string) {
	if text != "" && !slices.Contains(*w, text) {
		*w = append(*w, text)
	}
}
