package driver

import (
	"strings"

	"fleet/internal/fleet"
)

// maxOneLine limits the result of oneLine, in characters.
const maxOneLine = 160

// addFinalText adds the agent's final text to the outcome: shortened as the summary, and in full as the payload.
func addFinalText(o *fleet.Outcome, full string) {
	o.Summary = shorten(toValidUTF8(full), maxSummary)
	if full != "" {
		o.Payload = []byte(full)
	}
}

// toValidUTF8 returns s as valid UTF-8 without NUL, which every database accepts.
func toValidUTF8(s string) string { return Clean([]byte(s)) }

// oneLine returns s as valid UTF-8 on one line, shortened to maxOneLine characters.
func oneLine(s string) string {
	return shorten(strings.Join(strings.Fields(toValidUTF8(s)), " "), maxOneLine)
}

// reasonText returns s as valid UTF-8, shortened to maxReason characters.
func reasonText(s string) string { return shorten(toValidUTF8(s), maxReason) }

// lastLine returns the last line of s with any text.
func lastLine(s string) string {
	last := ""
	for line := range strings.Lines(s) {
		if l := displayedText(line); l != "" {
			last = l
		}
	}
	return last
}

// setFailed turns the outcome into a failure with the reason.
func setFailed(o *fleet.Outcome, reason string) {
	o.Status, o.Reason = fleet.TaskFailed, reason
}
