package fleet

import "time"

// Session is a conversation with an agent: consecutive tasks that share a context.
type Session struct {
	ID       string
	Toolset  Toolset
	Owner    string
	Name     string // for people; may be empty
	Title    string // Task.Title of the first turn; empty before it
	Key      string // key within its toolset; unique among the owner's open sessions; empty if only its id identifies it
	Agent    string // the agent or definition, as the caller named it
	Source   string // where that agent comes from, in the toolset's terms
	AgentUID string // the agent of the session

	Turns       int // number of turns begun
	CreatedAt   time.Time
	UsedAt      time.Time
	ClosedAt    time.Time // zero while open
	CloseReason string
	Revision    int64 // incremented by every write; set by the store
}
