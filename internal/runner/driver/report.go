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

// stranger is the reason of a run whose program put out nothing that its driver knows, or not all that it should. why is
// why it failed in its own words, and first the first that it put out; both can be empty. version is that of the program,
// where it tells.
func stranger(why, first, program, version, tested string) string {
	if why == "" {
		why = "this version of " + strings.TrimSpace(program+" "+version) + " says nothing that Fleet knows"
		if first = oneLine(valid(first)); first != "" {
			why += ", but " + shorten(first, maxStrange)
		}
	}
	if tested == "" {
		return why
	}
	return why + "; tested with " + program + " " + tested
}

// maxStrange is how much of an output that is not known is shown, in characters.
const maxStrange = 80
