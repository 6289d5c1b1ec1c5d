package fleet

import "time"

// EventFilter selects events; the zero value selects all.
type EventFilter struct {
	Owner         string   // only events of this principal's agents; empty: of all agents
	SharedUIDs    []string // uids of agents of other owners to include; only with Owner
	Projects      []string // only events of agents in these projects, each a name or PLACE/NAME; empty: of all agents
	AgentName     string   // compared ignoring case
	AgentUID      string   // only events of this agent, not of other agents with its name
	TaskID        string
	Types         []EventType // only events of these types; empty: of all types
	Selector      Selector    // only events of tasks whose labels match, and events without a task of agents whose labels match
	WithoutDetail bool        // without EventTaskDetail
	WithoutOutput bool        // without OutputEvents, except those of the tasks in OutputOf
	OutputOf      []string    // ids of tasks; only with WithoutOutput
}

// EventWindow selects events from those that match: the first ones after a Seq, or the newest ones.
type EventWindow struct {
	After  int64
	Newest bool  // the newest ones, whatever After is
	Before int64 // with Newest: the newest of those with a lower Seq; 0 means of all
	Limit  int
}

// AgentFilter selects agents: by name, by workspace, or those that are shared. The zero value selects none.
type AgentFilter struct {
	Name   string // only agents with this name, compared ignoring case, that are not deleted
	Owner  string // only agents of this principal; only with Name
	Newest bool   // only the newest agent with Name in ToolsetFleet, even if it is deleted

	Place, WorkspaceID string // only the newest agent that has or had the workspace, even if it is deleted
	Shared             bool   // only agents that are shared, including deleted ones, sorted by uid
}

// AgentViewFilter selects agents. The zero value selects none.
type AgentViewFilter struct {
	UIDs []string // the agents with these uids, deleted or not
	Live bool     // all agents that are not deleted
}

// HoldingsScope says what AgentReader.Holdings counts, and what the transaction is about to add. The zero value counts everything.
type HoldingsScope struct {
	Toolset       *Toolset // only the agents of this toolset
	Exclusive     bool     // until this transaction ends, no other one adds anything of the owner, even if the limits are far from reached
	WithoutAgents bool     // only tasks and bytes, because counting thousands of agents takes long
	Bytes         int      // how many stored bytes the transaction is about to add, besides a new task
}

// MessageFilter selects the message with the id, or the messages to the task. The zero value selects none.
type MessageFilter struct{ ID, TaskID string }

// ResourceFilter selects the resources of the kind, or only the one with the name. The zero value selects none.
type ResourceFilter struct {
	Kind ResourceKind
	Name string
}

// SessionKey is the key of a session: its id, or the key of an open session of an owner.
type SessionKey struct {
	ID string

	Toolset    Toolset
	Owner, Key string
}

// TokenFilter selects tokens, with the revoked ones unless AgentUID is set. The zero value selects none.
type TokenFilter struct {
	Name     string // the tokens with this name, without those of agents
	AgentUID string // the tokens of this agent that are not revoked
	All      bool   // all tokens but those of agents
}

// IdentityKey is the key of an identity: a principal, or a subject of a source.
type IdentityKey struct{ Principal, Source, SubjectID string }

// PruneKind is a kind of rows that are removed when they are old.
type PruneKind int

const (
	// PruneHistory removes events and remembered requests, plans of bulk operations, revoked tokens of agents, refusals of budgets,
	// expired leases, and servers whose last heartbeat is old and that have no agents. It keeps the newest event, forgotten servers,
	// and all tasks and agents.
	PruneHistory PruneKind = iota

	// PrunePayloads removes the payloads and attachments of tasks that ended before the time, and sets their PayloadRemoved.
	// It also removes the remains of agents that were deleted before the time.
	PrunePayloads

	// PruneAudit removes entries of the audit log.
	PruneAudit

	// PruneDeliveries removes deliveries that were created before the time, whether they wait or not.
	PruneDeliveries
)

// TaskFilter selects tasks; the zero value selects all.
type TaskFilter struct {
	Owner         string   // only tasks of this principal's agents; empty: of all agents
	SharedUIDs    []string // uids of agents of other owners to include; only with Owner
	Projects      []string // only tasks of agents in these projects, each a name or PLACE/NAME; empty: of all agents
	AgentUID      string   // only tasks of this agent, not of other agents with its name
	AgentName     string   // only tasks of agents with this name, compared ignoring case
	Toolset       *Toolset // only tasks of agents of this toolset; nil: of all toolsets
	Place         string   // only tasks of agents of this place; empty: of all places
	Project       string   // only tasks of agents of this project; empty: of all projects
	Role          string   // only tasks of agents with this role; empty: of all roles
	Status        TaskStatus
	RootID        string         // only the task with this id and the tasks below it
	ParentID      string         // only tasks that the task with this id has delegated
	Ended         bool           // only tasks that have ended
	Active        bool           // only tasks that have not ended
	LandingStates []LandingState // only tasks whose work is in one of the states; empty: all tasks
	Source        Source
	Since         time.Time // only tasks that were created then or later
	Until         time.Time // only tasks that were created before; zero for no limit
	Selector      Selector  // only tasks whose labels match
	Text          string    // only tasks with this text in the summary or the first 4 KiB of the description, ignoring case
}

// TaskWindow selects a page of the tasks that match.
type TaskWindow struct {
	Limit, Offset int
	After         string // id of the task before the page, instead of Offset; ignored if that task does not exist
	Count         int    // maximum number of tasks to count
}

// FoundTasks is a page of the tasks that match.
type FoundTasks struct {
	Tasks []*Task
	Total int  // number of tasks that match, at most TaskWindow.Count
	More  bool // more than Total tasks may match
	AtEnd bool // no matching task comes after these
}
