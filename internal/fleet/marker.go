package fleet

import "strings"

// What an agent that reports may write instead of calling agent_complete.
const (
	MarkerComplete = "[CONTRACT COMPLETE]"
	MarkerFailed   = "[CONTRACT FAILED]"
)

// maxSaid is how much of what an agent wrote last is remembered for a summary, in bytes.
const maxSaid = 16 << 10

// said is what an agent wrote last: the text since its last step. A marker may come in pieces.
type said struct{ text string }

// add takes in a piece of output, and returns how the task has ended by it, if it has.
func (s *said) add(o Output) (Outcome, bool) {
	if o.Step {
		s.text = ""
		return Outcome{}, false
	}
	s.text = tail(s.text+o.Text, maxSaid)
	return reported(s.text)
}

// reported says how a task has ended by the marker in the text, if there is one. The summary, or the reason, is the
// text without it.
func reported(text string) (Outcome, bool) {
	words := func(marker string) string { return strings.TrimSpace(strings.ReplaceAll(text, marker, "")) }
	switch {
	case strings.Contains(text, MarkerFailed):
		reason := words(MarkerFailed)
		if reason == "" {
			reason = "the agent says that it failed, and not why"
		}
		return Outcome{Status: TaskFailed, Reason: reason, Summary: reason}, true
	case strings.Contains(text, MarkerComplete):
		return Outcome{Status: TaskCompleted, Summary: words(MarkerComplete)}, true
	}
	return Outcome{}, false
}
