package driver

import (
	"fmt"
	"hash/fnv"
	"strings"
)

// conversation is the stored form of a session of an agent's program.
type conversation struct {
	id               string // of the session
	instructionsHash string // fingerprint of the instructions that the program has received in this session
	usage            string // what the program reports for the whole session: its usage or its cost
}

func parseConversation(s string) conversation {
	id, rest, _ := strings.Cut(s, " ")
	hash, usage, _ := strings.Cut(rest, " ")
	return conversation{id, hash, usage}
}

func (c conversation) String() string {
	if c.id == "" {
		return ""
	}
	return strings.TrimSpace(c.id + " " + c.instructionsHash + " " + c.usage)
}

// nextConversation returns the conversation that the agent's next run continues. session is the id of the program's session; empty if it has
// reported none. answered means that the model has answered, so it has received this run's instructions.
func (f Format) nextConversation(session string, answered bool, usage string) string {
	previous := parseConversation(f.Session)
	if session == "" {
		return f.Session
	}
	c := conversation{session, f.InstructionsHash, usage}
	if !answered && session == previous.id {
		c.instructionsHash = previous.instructionsHash
	}
	return c.String()
}

// ConversationID returns the id by which a program knows the conversation. session is the stored form of the conversation.
func ConversationID(session string) string { return parseConversation(session).id }

// fingerprint returns a short hash of the text.
func fingerprint(text string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text))
	return fmt.Sprintf("%016x", h.Sum64())
}
