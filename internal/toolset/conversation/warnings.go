package conversation

import (
	"slices"

	"fleet/internal/fleet"
)

// Warnings are the warnings of a task without repetitions, for example that an MCP server did not start.
type Warnings []string

// AddEvent adds the warning that the event reports, if it reports one. It always returns nil. Its signature fits
// service.Service.FollowTask.
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

// Add adds a warning. It ignores an empty text and a text that was added before.
func (w *Warnings) Add(text string) {
	if text != "" && !slices.Contains(*w, text) {
		*w = append(*w, text)
	}
}
