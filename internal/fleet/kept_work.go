package fleet

import (
	"time"
)

// KeptWork is the workspace of a deleted agent, which its place keeps for a while.
type KeptWork struct {
	AgentUID, AgentName, Owner, Project string

	Place    string // set by the core
	Reason   string // for people: the work that may exist only in the workspace
	Location string // where it is, for people
	Size     int64  // in bytes
	KeptAt   time.Time
	Until    time.Time // when the place removes it, if its size limit does not require that earlier
}
