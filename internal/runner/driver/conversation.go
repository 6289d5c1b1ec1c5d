package driver

import (
	"fmt"
	"hash/fnv"
	"strings"
)

// conversation is the stored form of a session of an agent's program. id is the session's id. told is a fingerprint of
// the instructions that the program has received in this session. Some drivers append usage or cost to told.
type conversation struct{ id, instructionsHash string }

func parseConversation(s string) conversation {
	id, hash, _ := strings.Cut(s, " ")
	return conversation{id, hash}
}

func (c conversation) String() string {
	if c.id == "" {
		return ""
	}
	return strings.TrimSpace(c.id + " " + c.instructionsHash)
}

// fingerprint returns a short hash of the text.
func fingerprint(text string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text))
	return fmt.Sprintf("%016x", h.Sum64())
}
