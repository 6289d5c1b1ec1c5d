package worktree

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
)

// refsPrefix is the prefix of the refs that Fleet stores for agents. Below refs/fleet/AGENT_UID are:
//
//	base       the commit at which the agent's branch started
//	TASK.base  the commit at which a task started
//	TASK       the snapshot at the end of the task
//	last       the newest snapshot
//	last.head  the commit of the agent's HEAD at the time of that snapshot
//
// Refs of the agent that cannot become branches of the repository are stored there by their names, for example as tags/v1 or stash.
const refsPrefix = "refs/fleet/"

const maxPlainRef = 100 // in bytes

var plainRefPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]*$`)

// agentRefPrefix returns the prefix of the agent's refs.
func agentRefPrefix(uid string) string { return refsPrefix + refPart(uid) + "/" }

// taskRef returns the ref of the snapshot at the end of a task.
func (t Tree) taskRef(taskID string) string { return agentRefPrefix(t.UID) + refPart(taskID) }

// refPart returns the id as a part of a ref's name, encoded if necessary.
func refPart(id string) string {
	if len(id) <= maxPlainRef && plainRefPattern.MatchString(id) {
		return id
	}
	return refDigest(id)
}

// refDigest returns an x and the first 32 hex digits of the text's SHA-256. The result can be a part of a ref's name.
func refDigest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "x" + hex.EncodeToString(sum[:16])
}
