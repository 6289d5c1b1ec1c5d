package reconcile

import (
	"cmp"
	"strings"

	"fleet/internal/fleet"
)

// Instead of calling agent_complete, an agent that is told to report its result may write one of these markers, alone on the last
// line of its final message. Elsewhere a marker has no meaning, because agents also announce, quote and echo markers.
const (
	MarkerComplete = "[CONTRACT COMPLETE]"
	MarkerFailed   = "[CONTRACT FAILED]"
)

// withMarker returns the outcome that the agent reported with a marker at the end of its summary or payload, without the marker. The
// reason of a failure is the summary. Without a marker, withMarker returns o unchanged.
func withMarker(o fleet.Outcome) fleet.Outcome {
	summary, summaryMarker := cutMarker(o.Summary)
	payload, marker := cutMarker(string(o.Payload))
	if marker = cmp.Or(marker, summaryMarker); marker == "" {
		return o
	}
	if summary = strings.TrimSpace(summary); summary == "" {
		summary = lastLine(payload)
	}
	o.Reported, o.Summary = true, summary
	if len(o.Payload) > 0 {
		o.Payload = []byte(payload)
	}
	if marker == MarkerFailed {
		o.Status, o.Reason = fleet.TaskFailed, summary
		if summary == "" {
			o.Reason = "the agent reported a failure without a reason"
		}
	}
	return o
}

// cutMarker returns the text without the marker on its last non-blank line, and the marker. Without a marker it returns
// the text unchanged. Models like to write the marker in bold or as code.
func cutMarker(text string) (rest, marker string) {
	body := strings.TrimRight(text, " \t\r\n")
	begin := strings.LastIndexByte(body, '\n') + 1
	switch line := strings.Trim(body[begin:], " \t*_`"); line {
	case MarkerComplete, MarkerFailed:
		return body[:begin], line
	}
	return text, ""
}

// lastLine returns the last non-blank line of the text.
func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:])
}
