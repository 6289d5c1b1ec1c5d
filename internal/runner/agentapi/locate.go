package agentapi

import (
	"slices"
	"strings"
	"time"
	"unicode"

	"fleet/internal/fleet"
)

// The message of a run is its prompt as typeableText returns it. The first message of a conversation may begin with the
// specification. So the text and the time of a message show to which run it belongs. Only equal prompts of two runs within
// messageSkew could be confused. They are rare, because AgentAPI accepts a message only after the agent's screen was
// unchanged for two seconds.
const (
	// messageSkew is how much older than its run a message may be, because clocks differ.
	messageSkew = 2500 * time.Millisecond
	// followUpWindow is the time after the agent became idle in which Fleet sends a later message of the run. An unknown
	// message after that time is from a person.
	followUpWindow = 8 * time.Second
)

// locate returns the index of the run's message, or -1 if the conversation does not contain it. It records the message
// in t.
func (runners *Runners) locate(v *view, a fleet.Agent, r fleet.Run, t *transcript) int {
	prompt := typeableText(r.Prompt)
	if r.SelfStarted {
		v.findOrAddPrompt(prompt)
	}
	first := true
	index := -1
	for i, m := range v.messages {
		if m.Role != roleUser {
			continue
		}
		isPrompt := m.Content == prompt || first && strings.HasSuffix(m.Content, "\n\n"+prompt)
		first = false
		if !isPrompt {
			continue
		}
		if messageTime, ok := t.ownMessageTime(); ok {
			if messageTime.Equal(m.Time) {
				t.findMessages(v.messages[i+1:], r.Messages)
				return i
			}
			continue
		}
		if m.ID > 0 && t.messageOfCursor() == m.ID {
			index = i
			break
		}
		fits := m.ID == shownMessageID || !m.Time.Before(r.StartedAt.Add(v.skew-messageSkew))
		if index < 0 && fits && runners.transcripts.taskOf(a.UID, m.Time, r.TaskID) == "" {
			index = i
		}
	}
	if index >= 0 {
		t.setMessage(a.UID, v.messages[index])
		t.findMessages(v.messages[index+1:], r.Messages)
	}
	return index
}

// findEnd returns the end of the run whose message is at i: the index after its last message. last reports whether no
// message of another run or of a person follows.
func (runners *Runners) findEnd(v *view, a fleet.Agent, t *transcript, i int) (end int, last bool) {
	for end = i + 1; end < len(v.messages); end++ {
		m := v.messages[end]
		// The conversation may show a message before Send has recorded its arrival.
		if m.Role != roleUser || t.hasMessageAt(m.Time) || t.isPending(m.Content) {
			continue
		}
		if runners.transcripts.taskOf(a.UID, m.Time, "") != "" || m.Time.Sub(v.messages[end-1].Time) > followUpWindow {
			return end, false
		}
	}
	return end, true
}

// hasOtherMessage reports whether the agent has got any message other than the prompt.
func (v *view) hasOtherMessage(prompt string) bool {
	return slices.ContainsFunc(v.messages, func(m message) bool { return m.Role == roleUser && m.Content != typeableText(prompt) })
}

// messageText returns the message for the run, with the specification if the agent must get it first.
func messageText(r fleet.Run, spec string) string {
	text := typeableText(r.Prompt)
	if spec = typeableText(spec); spec != "" && text != "" {
		text = spec + "\n\n" + text
	}
	return text
}

// typeableText returns the text as it can be typed into a terminal: without surrounding space, and without control characters
// except newlines and tabs.
func typeableText(text string) string {
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
	return strings.Trim(text, " \t\n\r\f\v") // AgentAPI trims these too
}
