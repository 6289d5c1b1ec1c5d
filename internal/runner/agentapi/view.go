package agentapi

import (
	"slices"
	"strings"
	"time"
	"unicode"
)

// message is one message of a conversation. A message of the agent contains the text of its screen. The last message
// changes whenever the screen changes.
type message struct {
	ID      int       `json:"id"`
	Role    string    `json:"role"`
	Content string    `json:"content"`
	Time    time.Time `json:"time"`
}

// view is a snapshot of a conversation.
type view struct {
	status    string
	agentType string
	messages  []message
	skew      time.Duration // how far the agent's clock is ahead of Fleet's clock; 0 if the clocks are about the same
}

// apiMessages returns the messages of AgentAPI, without the message that findOrAddPrompt may have added.
func (v *view) apiMessages() []message {
	if len(v.messages) > 0 && v.messages[0].ID == shownMessageID {
		return v.messages[1:]
	}
	return v.messages
}

// findOrAddPrompt reports whether the conversation begins with the prompt. The conversation of an agent that got the prompt
// on its command line has no message with the prompt. If the first screen of such an agent shows the prompt, findOrAddPrompt adds the
// message.
func (v *view) findOrAddPrompt(prompt string) bool {
	prompt = typeableText(prompt)
	if prompt == "" || len(v.messages) == 0 {
		return false
	}
	for _, m := range v.messages {
		if m.Role == roleUser {
			return m.Content == prompt
		}
	}
	firstScreen, promptLetters := v.messages[0], []rune(letters(prompt))
	if len(promptLetters) < minPromptLetters || !strings.Contains(letters(firstScreen.Content), string(promptLetters[:min(len(promptLetters), maxPromptLetters)])) {
		return false
	}
	v.messages = slices.Insert(slices.Clone(v.messages), 0, message{ID: shownMessageID, Role: roleUser, Content: prompt, Time: shownMessageTime})
	return true
}

// The screen must show the first maxPromptLetters letters of a prompt, or all letters of a shorter prompt. A prompt with fewer
// letters than minPromptLetters is not looked for.
const minPromptLetters, maxPromptLetters = 12, 80

// shownMessageID is the id of the message that findOrAddPrompt adds. shownMessageTime is the time of that message, before all other
// messages.
const shownMessageID = -1

var shownMessageTime = time.Unix(1, 0)

// letters returns the letters and digits of the text. A screen may insert other characters between them.
func letters(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return r
		}
		return -1
	}, s)
}
