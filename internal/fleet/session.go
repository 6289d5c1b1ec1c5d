package fleet

import "time"

// Session is a conversation with an agent: tasks, one after the other, that share a context.
type Session struct {
	ID       string
	Toolset  Toolset
	Owner    string
	Name     string // for people; may be empty
	Key      string // what it is found by in its toolset; unique among the owner's open ones; empty: its id alone
	Agent    string // the agent as the caller named it
	Source   string // where that agent is from, in the toolset's own words
	AgentUID string // the agent that it is held with

	Messages    int // turns that were begun
	CreatedAt   time.Time
	UsedAt      time.Time
	ClosedAt    time.Time // zero: open
	CloseReason string
	Revision    int64 // grows with every write of the row; the store sets it
}

// RegisteredTool is a tool that its owner has registered for agents.
type RegisteredTool struct {
	Tool
	Owner     string
	Agent     string // the agent that gets it; empty: every one
	CreatedAt time.Time
	UpdatedAt time.Time
}
