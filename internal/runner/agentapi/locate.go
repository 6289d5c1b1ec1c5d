package agentapi

import (
	"slices"
	"strings"
	"time"
	"unicode"

	"fleet/internal/fleet"
)

// An agent is given a run's prompt as it is, with nothing added, so a run is known again in a conversation by its words
// and its time. That is certain: AgentAPI takes a message only when the agent's screen has not changed for two seconds,
// so between two equal prompts of two runs more time passes than messageSkew.
const (
	// messageSkew is how much older than its run a message may be, by clocks that are not quite the same.
	messageSkew = 2500 * time.Millisecond
	// followUp is how soon after the agent has come to rest Fleet gives it a later message. What comes later, and is not
	// known, is a person's.
	followUp = 8 * time.Second
)

// locate returns where the message with the run is; -1 when it is not in the conversation.
func (all *Runners) locate(v *view, a fleet.Agent, r fleet.Run, t *transcript) int {
	prompt := typed(r.Prompt)
	if r.SelfStarted {
		v.showPrompt(prompt)
	}
	first := true
	at := -1
	for i, m := range v.messages {
		if m.Role != roleUser {
			continue
		}
		same := m.Content == prompt || first && strings.HasSuffix(m.Content, "\n\n"+prompt)
		first = false
		if !same {
			continue
		}
		if known, ok := t.message(); ok {
			if known.Equal(m.Time) {
				t.recall(v.messages[i+1:], r.Messages)
				return i
			}
			continue
		}
		if t.hint == m.ID && t.hint > 0 {
			at = i
			break
		}
		fits := m.ID == shownID || !m.Time.Before(r.Started.Add(v.skew-messageSkew))
		if at < 0 && fits && all.runs.taskOf(a.UID, m.Time, r.TaskID) == "" {
			at = i
		}
	}
	if at >= 0 {
		t.found(a.UID, v.messages[at])
		t.recall(v.messages[at+1:], r.Messages)
	}
	return at
}

// segment returns the end of what belongs to the run whose message is at i. last says that nothing came after it.
func (all *Runners) segment(v *view, a fleet.Agent, t *transcript, i int) (end int, last bool) {
	for end = i + 1; end < len(v.messages); end++ {
		m := v.messages[end]
		// A message that is on its way stands here before it is known to have arrived.
		if m.Role != roleUser || t.hasLetterAt(m.Time) || t.isWaiting(m.Content) {
			continue
		}
		if all.runs.taskOf(a.UID, m.Time, "") != "" || m.Time.Sub(v.messages[end-1].Time) > followUp {
			return end, false
		}
	}
	return end, true
}

// given reports whether the agent was ever given anything but that.
func (v *view) given(but string) bool {
	return slices.ContainsFunc(v.messages, func(m message) bool { return m.Role == roleUser && m.Content != typed(but) })
}

// compose is what the agent is given for the run. spec is what it is to be told first, if anything.
func compose(r fleet.Run, spec string) string {
	text := typed(r.Prompt)
	if spec = typed(spec); spec != "" && text != "" {
		text = spec + "\n\n" + text
	}
	return text
}

// typed is the text as it can be typed into a terminal: without characters that control it.
func typed(text string) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\r\n", "\n")
	text = strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t':
			return r
		case r == '\r':
			return '\n'
		case unicode.IsControl(r):
			return -1
		}
		return r
	}, text)
	return strings.Trim(text, " \t\n\r\f\v") // AgentAPI takes nothing else
}
