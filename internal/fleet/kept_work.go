package fleet

import "time"

// KeptWork describes a workspace that its place keeps for a while after the agent was deleted.
type KeptWork struct {
	AgentUID, AgentName, Owner, Project string

	Place    string // set by the core
	Reason   string // for people: the work that may exist only in the workspace
	Location string // where it is, for people
	Size     int64  // in bytes
	KeptAt   time.Time
	Until    time.Time // when the place removes it, unless its size limit requires that earlier; zero: never
}
