package driver

import (
	"strings"

	"fleet/internal/fleet"
)

// maxStep limits a step's text, in characters.
const maxStep = 160

// report adds the agent's final text to the outcome: shortened as the summary, and in full as the payload.
func report(o *fleet.Outcome, full string) {
	o.Summary = shorten(valid(full), maxSummary)
	if full != "" {
		o.Payload = []byte(full)
	}
}

// valid returns s as valid UTF-8 without NUL, which every database accepts.
func valid(s string) string { return Clean([]byte(s)) }

// oneLine returns s on one line, shortened to maxStep characters.
func oneLine(s string) string { return shorten(strings.Join(strings.Fields(s), " "), maxStep) }

// lastLine returns the last line of s with any text.
func lastLine(s string) string {
	last := ""
	for line := range strings.Lines(s) {
		if l := plain(line); l != "" {
			last = l
		}
	}
	return last
}

// fail turns the outcome into a failure with the reason.
func fail(o *fleet.Outcome, reason string) {
	o.Status, o.Reason = fleet.TaskFailed, reason
}
