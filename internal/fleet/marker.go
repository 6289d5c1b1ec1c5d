package fleet

import "strings"

// What an agent that reports may write instead of calling agent_complete: the marker, alone on the last line of its
// final message. Anywhere else it means nothing, since agents announce it, quote it and echo it.
const (
	MarkerComplete = "[CONTRACT COMPLETE]"
	MarkerFailed   = "[CONTRACT FAILED]"
)

// reported returns the outcome as the agent reported it by a marker, and the outcome unchanged if there is none. The
// marker is not part of the summary, the reason or the payload that are kept.
func (o Outcome) reported() Outcome {
	summary, said := cutMarker(o.Summary)
	payload, marker := cutMarker(string(o.Payload))
	if marker == "" {
		if marker = said; marker == "" {
			return o
		}
	}
	if summary = strings.TrimSpace(summary); summary == "" {
		summary = lastLine(payload)
	}
	o.Reported, o.Summary = true, summary
	if len(o.Payload) > 0 {
		o.Payload = []byte(payload)
	}
	if marker == MarkerFailed {
		o.Status, o.Reason = TaskFailed, summary
		if summary == "" {
			o.Reason = "the agent reported that it failed, and not why"
		}
	}
	return o
}

// cutMarker returns the text without the marker on its last line that is not blank, and that marker. Without one it
// returns the text as it is. Models like to set the marker in bold or as code.
func cutMarker(text string) (rest, marker string) {
	body := strings.TrimRight(text, " \t\r\n")
	begin := strings.LastIndexByte(body, '\n') + 1
	switch line := strings.Trim(body[begin:], " \t*_`"); line {
	case MarkerComplete, MarkerFailed:
		return body[:begin], line
	}
	return text, ""
}

// lastLine returns the last line of the text that is not blank.
func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:])
}
