package conversation

import (
	"slices"

	"fleet/internal/fleet"
)

// Warnings are the warnings of a task, for example that an MCP server did not start, without repetitions.
type Warnings []string

// AddEvent adds the warning that the event reports, if it reports one. It is a sink for FollowTask, and always returns nil.
func (w *Warnings) AddEvent(e fleet.Event) error {
	if e.Type != fleet.EventTaskStep {
		return nil
	}
	switch s := fleet.ParseStep(e.Data); {
	case s == nil:
	case s.Type == fleet.StepWarning:
		w.Add(s.Message)
	case s.Type == fleet.StepDenied, s.Type == fleet.StepLimit, s.Type == fleet.StepRetry:
		w.Add(e.Text)
	}
	return nil
}

// Add adds a warning.
func (w *Warnings) Add(text string) {
	if text != "" && !slices.Contains(*w, text) {
		*w = append(*w, text)
	}
}
