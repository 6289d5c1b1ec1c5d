package worktree

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
)

// refsPrefix is the prefix of the refs with agents' snapshots. Below refs/fleet/AGENT_UID, base is the commit at which the
// agent's branch started, TASK the snapshot at the end of a task, TASK.base the commit at its start, last the newest snapshot, and
// last.head the commit of the agent's HEAD at that time. The agent's refs that are not branches of the repository are there too.
const refsPrefix = "refs/fleet/"

const maxPlainRef = 100 // in bytes

var plainRefPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]*$`)

// AgentRefs returns the prefix of the agent's refs.
func AgentRefs(uid string) string { return refsPrefix + refPart(uid) + "/" }

// taskRef returns the ref of the snapshot at the end of a task.
func (t Tree) taskRef(taskID string) string { return AgentRefs(t.UID) + refPart(taskID) }

// refPart returns the id as a part of a ref's name, encoded if necessary.
func refPart(id string) string {
	if len(id) <= maxPlainRef && plainRefPattern.MatchString(id) {
		return id
	}
	return digest(id)
}

// digest returns an x and the first 32 hex digits of the text's SHA-256. The result can be a part of a ref's name.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "x" + hex.EncodeToString(sum[:16])
}
