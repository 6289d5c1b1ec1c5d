package coder

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
	"time"
	"unicode"

	"fleet/internal/fleet"
)

// markPattern finds the mark at the end of what Fleet gives an agent: the task, and the message when it is a later one.
// It is how a task is known again in the conversation, whoever looks and whatever happened since.
var markPattern = regexp.MustCompile(`\[Fleet task ([^\],\s]+)(?:, message ([0-9a-f]{12}))?\]`)

// markText is the mark of a task, or of a message to it.
func markText(taskID, messageID string) string {
	if messageID == "" {
		return "[Fleet task " + taskID + "]"
	}
	return "[Fleet task " + taskID + ", message " + shortHash(messageID) + "]"
}

// shortHash stands for a text in 12 characters.
func shortHash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:6])
}

// mark returns the mark at the end of the message, "" for none.
func (m message) mark() (task, id string) {
	if m.Role != roleUser {
		return "", ""
	}
	text := strings.TrimSpace(m.Content)
	i := strings.LastIndex(text, "\n")
	found := markPattern.FindStringSubmatch(text[i+1:])
	if found == nil || found[0] != text[i+1:] {
		return "", ""
	}
	return found[1], found[2]
}

// hasMark says whether Fleet has given the agent anything.
func (v *view) hasMark() bool {
	for _, m := range v.messages {
		if task, _ := m.mark(); task != "" {
			return true
		}
	}
	return false
}

// commandSkew is how much older than its run a message may be, by another clock, that has no mark.
const commandSkew = 2 * time.Second

// find returns where the message with the run is; -1 when it is not there.
func (v *view) find(r fleet.Run) int {
	command := isCommand(typed(r.Prompt))
	for i, m := range v.messages {
		if m.Role != roleUser {
			continue
		}
		task, id := m.mark()
		if task == r.TaskID && id == "" {
			return i
		}
		if command && task == "" && m.Content == typed(r.Prompt) && !m.Time.Before(r.Started.Add(-commandSkew)) {
			return i
		}
	}
	return -1
}

// segment returns the end of what belongs to the run whose message is at i: the message of a person, or of another
// run, behind it. last says that nothing came after it.
func (v *view) segment(r fleet.Run, i int) (end int, last bool) {
	for end = i + 1; end < len(v.messages); end++ {
		m := v.messages[end]
		if m.Role != roleUser {
			continue
		}
		if task, id := m.mark(); task != r.TaskID || id == "" {
			return end, false
		}
	}
	return end, true
}

// hasMessage says whether the later message was given to the run.
func (v *view) hasMessage(taskID, id string) bool {
	for _, m := range v.messages {
		if task, hash := m.mark(); task == taskID && hash == shortHash(id) {
			return true
		}
	}
	return false
}

// compose is what the agent is given for the run. spec is what it is to be told first, if anything.
func compose(r fleet.Run, spec string) string {
	text := typed(r.Prompt)
	if spec = typed(spec); spec != "" {
		text = spec + "\n\n" + text
	} else if isCommand(text) {
		return text
	}
	return text + "\n\n" + markText(r.TaskID, "")
}

// isCommand says whether the agent's program would take the text for a command of its own: then nothing can be added.
func isCommand(text string) bool {
	return !strings.Contains(text, "\n") && (strings.HasPrefix(text, "/") || strings.HasPrefix(text, "!"))
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
