package driver

import (
	"strings"

	"fleet/internal/fleet"
)

// maxStep is the longest step, in characters.
const maxStep = 160

// report puts what the agent reported into the outcome: shortened as the summary, and in full as the payload.
func report(o *fleet.Outcome, full string) {
	o.Summary = shorten(valid(full), maxSummary)
	if full != "" {
		o.Payload = []byte(full)
	}
}

// valid returns s as text that every database takes.
func valid(s string) string { return Clean([]byte(s)) }

// oneLine returns s as one line that is not too long to be read.
func oneLine(s string) string { return shorten(strings.Join(strings.Fields(s), " "), maxStep) }

// lastLine returns the last line of s that says anything.
func lastLine(s string) string {
	last := ""
	for line := range strings.Lines(s) {
		if l := plain(line); l != "" {
			last = l
		}
	}
	return last
}

// fail makes the outcome a failure, with the reason.
func fail(o *fleet.Outcome, reason string) {
	o.Status, o.Reason = fleet.TaskFailed, reason
}
