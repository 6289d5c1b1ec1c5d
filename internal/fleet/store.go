package fleet

import (
	"context"
	"time"
)

// Store keeps what is known of the fleet. One transaction changes state, appends the event that tells of it, and
// remembers the request that asked for it.
//
// Errors that a rule of the core must see are *Error: AGENT_EXISTS, AGENT_BUSY and TOKEN_EXISTS come from unique
// indexes, at the write or at the commit. Others mean that the store does not work.
type Store interface {
	// Update runs fn in a transaction and commits when fn returns nil. fn may run more than once, each time on fresh
	// state, so it does nothing but read and write tx. The error of fn comes back as it is. What fn has read by a key or a
	// name does not change before the commit. When Update returns, what it appended is in the log.
	//
	// If ctx has a lease (WithLease), the transaction holds only while the lease does: ErrLeaseLost, and nothing is written, when
	// another owner has taken it.
	Update(ctx context.Context, fn func(tx Tx) error) error

	// View runs fn on one consistent state, which fn cannot change. fn may run more than once, as that of Update.
	View(ctx context.Context, fn func(tx ReadTx) error) error

	// LastSeq returns the Seq of the newest event, 0 when there is none. It is cheap: reads call it each time.
	LastSeq(ctx context.Context) (int64, error)

	// Subscribe returns a channel that receives after something has been committed, by this process or another one,
	// and a function that ends the subscription. Signals may be merged, never lost: one that finds the channel full
	// has one waiting. Commits of other processes may show up to a second later.
	Subscribe() (signal <-chan struct{}, cancel func())

	// Lease takes the lease on the key for the owner, or renews it, for ttl from now by the clock of the store, which all
	// processes share. It returns the epoch of the lease, which is higher than all before it whenever the lease changes hands
	// or was given back; 0 when another owner has it and its time is not over.
	Lease(ctx context.Context, key, owner string, ttl time.Duration) (epoch int64, err error)

	// RenewLeases renews all leases that the owner has, also when their time is over and nobody has taken them, and returns
	// their epochs by key. It makes no lease shorter.
	RenewLeases(ctx context.Context, owner string, ttl time.Duration) (epochs map[string]int64, err error)

	// Release gives the lease back. One that the owner does not have is no error.
	Release(ctx context.Context, key, owner string) error

	// Note keeps when something was last done, under a key; no subscriber is told.
	Note(ctx context.Context, key string, at time.Time) error

	// Noted returns when something was last done; zero when it never was.
	Noted(ctx context.Context, key string) (time.Time, error)

	// Secret returns the secret of the name, which is value unless one was kept before: then it is that one, for every
	// process and for ever. No subscriber is told, and no transaction reads it.
	Secret(ctx context.Context, name string, value []byte) ([]byte, error)

	// Prune removes what nobody needs any more, at most limit rows of each kind, and returns how many it has removed:
	// events and remembered requests from before the time, tokens of agents that were revoked before it, and leases that ended before it. The newest
	// event stays. Tasks and agents stay for ever.
	Prune(ctx context.Context, before time.Time, limit int) (removed int, err error)

	// PrunePayloads removes the payloads of tasks that ended before the time, and what was kept of agents that were deleted
	// before it, at most limit of each, and returns how many it has removed. Such tasks say PayloadRemoved from then on.
	PrunePayloads(ctx context.Context, before time.Time, limit int) (removed int, err error)

	// Full says whether the store has so little room left that it takes only what ends and removes things, and since
	// when. Then InsertAgent, InsertTask, InsertMessage, InsertQuestion, InsertSession, PutTool, PutPayload, AppendPayload and Append of
	// output or of a large event return ErrStoreFull, and the transaction can go on. Update returns it when there is no
	// room at all.
	Full() (since time.Time, full bool)

	// Close waits for transactions and closes the store.
	Close() error
}

// ErrStoreFull is the error of a write that the store has no room for.
var ErrStoreFull = Errorf(ReasonLimitReached, "the disk of the server's data is full: free space there, or delete agents; until then nothing new is taken").
	With("limit", "disk")

// ReadTx reads one consistent state. What is not there is nil, not an error.
type ReadTx interface {
	Agent(uid string) (*Agent, error)

	// AgentsByName returns the agents of the name that exist (are not deleted), compared without case, of the owner,
	// or of all owners when owner is empty; by owner.
	AgentsByName(name, owner string) ([]*Agent, error)

	// NewestAgent returns the agent of the fleet's own toolset that was created last under the name, compared without
	// case, of the owner, or of all owners when owner is empty; also a deleted one.
	NewestAgent(name, owner string) (*Agent, error)

	// AgentByWorkspace returns the newest agent that has, or had, the workspace of the place, also a deleted one.
	AgentByWorkspace(place, workspaceID string) (*Agent, error)

	// Agents returns the agents that exist, by name and owner.
	Agents() ([]*Agent, error)

	// AgentViews returns these agents with their active tasks, also deleted agents; those that never were are left out.
	AgentViews(uids []string) ([]*AgentView, error)

	// LiveAgentViews returns every agent that exists, with its active task.
	LiveAgentViews() ([]*AgentView, error)

	Task(id string) (*Task, error)

	// ActiveTask returns the pending or running task of the agent.
	ActiveTask(agentUID string) (*Task, error)

	// Tasks returns the agent's tasks, newest first, without descriptions beyond the first 4 KiB, and how many there are in all.
	Tasks(agentUID string, limit, offset int) (tasks []*Task, total int, err error)

	// FindTasks returns the tasks that match, newest first, as Tasks does, and how many match in all.
	FindTasks(f TaskFilter, limit, offset int) (tasks []*Task, total int, err error)

	// Usage returns what the tasks that match used, by the key: at most limit rows, those with the highest cost first, then
	// those with the most tasks; and what all of them used together.
	Usage(f TaskFilter, by UsageKey, limit int) (rows []UsageRow, total UsageRow, err error)

	// TaskIDs returns the ids that begin with the prefix, of tasks of the owner, or of all owners when owner is empty; at
	// most limit, in order. An empty prefix finds nothing.
	TaskIDs(prefix, owner string, limit int) ([]string, error)

	// LastTasks returns the newest task of each of these agents that has one, in any order.
	LastTasks(agentUIDs []string) ([]*Task, error)

	// SessionTasks returns the last tasks of the session, at most limit, oldest first.
	SessionTasks(sessionID string, limit int) ([]*Task, error)

	// Holdings returns how much the owner has.
	Holdings(owner string) (Holdings, error)

	// Message returns a message to a task.
	Message(id string) (*Message, error)

	// Messages returns the messages to the task, oldest first.
	Messages(taskID string) ([]*Message, error)

	// Question returns a question by its id.
	Question(id string) (*Question, error)

	// Questions returns the questions that match, newest first, at most limit, and how many match in all.
	Questions(f QuestionFilter, limit, offset int) (questions []*Question, total int, err error)

	// Payload returns the task's payload; nil when it has none.
	Payload(taskID string) ([]byte, error)

	// PackedPayload returns the task's payload as it is kept, compressed by gzip, in one member where it was put in one
	// piece; nil when it has none.
	PackedPayload(taskID string) ([]byte, error)

	// Changes returns what the task changed; nil when that was not recorded.
	Changes(taskID string) (*Changes, error)

	// Checks returns what is known of the task's checks; nil when nothing is.
	Checks(taskID string) (*TaskChecks, error)

	// Remains returns what is kept of an agent that is deleted, or is about to be; nil when nothing is.
	Remains(uid string) (*Remains, error)

	// Bundle returns the bundle of the agent's remains; nil when there is none.
	Bundle(uid string) ([]byte, error)

	// Events returns the events after seq that match, oldest first, at most limit. A view may show changes whose events
	// come into the log a moment later, but not with a filter for an agent's uid or a task: then its events are complete.
	Events(f EventFilter, after int64, limit int) ([]Event, error)

	// LastEvents returns the newest events that match, at most limit, oldest first.
	LastEvents(f EventFilter, limit int) ([]Event, error)

	// LastSeq returns the Seq of the newest event.
	LastSeq() (int64, error)

	// ChangedAgents returns the uids of the agents that have events after seq which are not output, each once.
	ChangedAgents(after int64) ([]string, error)

	// Request returns what is remembered of the principal's request.
	Request(principal, id string) (*Request, error)

	Session(id string) (*Session, error)

	// SessionByKey returns the open session of the key.
	SessionByKey(toolset Toolset, owner, key string) (*Session, error)

	// Sessions returns the open sessions of the owner, or of all owners when owner is empty; the one used last first.
	Sessions(toolset Toolset, owner string) ([]*Session, error)

	// Tools returns the tools that the owner has registered, in the order in which they were first.
	Tools(owner string) ([]*RegisteredTool, error)

	Token(name string) (*Token, error)
	// AgentTokens returns the tokens of the agent that are not revoked.
	AgentTokens(agentUID string) ([]*Token, error)
	TokenByHash(hash string) (*Token, error)
	Tokens() ([]*Token, error)
}

// Tx reads and writes one transaction.
type Tx interface {
	ReadTx

	// InsertAgent adds an agent. AGENT_EXISTS when its owner has one of that name.
	InsertAgent(a *Agent) error

	// UpdateAgent writes every field of an agent that is there, except its AgentConfig, and sets its Revision.
	UpdateAgent(a *Agent) error

	// InsertTask adds a task. AGENT_BUSY when it is active and its agent has an active one.
	InsertTask(t *Task) error

	// UpdateTask writes every field of a task that is there, and sets its Revision. A task that has ended is never changed.
	UpdateTask(t *Task) error

	// DeleteTask removes a task that has ended, with its payload, its changes, its checks, its messages, its questions and its events. A task that has not ended,
	// or is not there, is an error. The caller appends an event in the same transaction.
	DeleteTask(id string) error

	// InsertMessage adds a message to a task. One of the same id is an error.
	InsertMessage(m *Message) error

	// UpdateMessage writes what has become of a message that is there. That it was given, or refused, never changes.
	UpdateMessage(m *Message) error

	// InsertQuestion adds a question to a task. One of the same id is an error.
	InsertQuestion(q *Question) error

	// UpdateQuestion writes what has become of a question that is there: its status and its answer. One that is not open
	// never changes.
	UpdateQuestion(q *Question) error

	// PutPayload keeps the task's payload, compressed.
	PutPayload(taskID string, payload []byte) error

	// AppendPayload adds a piece to the end of the task's payload.
	AppendPayload(taskID string, piece []byte) error

	// PutChanges keeps what the task changed, also of a task that has ended, in place of what was kept before.
	PutChanges(taskID string, c *Changes) error

	// PutChecks keeps what is known of the task's checks, also of a task that has ended, in place of what was kept before.
	PutChecks(taskID string, c *TaskChecks) error

	// PutRemains keeps what is left of an agent, with its bundle, in place of what was kept before. Size follows from the
	// bundle.
	PutRemains(uid string, r *Remains, bundle []byte) error

	// Append adds an event to the log. Its Seq is set when Update returns. The log is complete up to its newest event: none
	// with a lower Seq appears later.
	Append(e *Event) error

	// PutRequest remembers the request. One of the same principal and id is an error.
	PutRequest(r *Request) error

	// InsertSession adds a session. SESSION_EXISTS when its owner has an open one of that key.
	InsertSession(s *Session) error

	// UpdateSession writes every field of a session that is there, and sets its Revision.
	UpdateSession(s *Session) error

	// PutTool keeps the tool, in place of one of the same owner, name and agent, whose CreatedAt it keeps. It says
	// whether there was one.
	PutTool(t *RegisteredTool) (replaced bool, err error)

	// DeleteTool removes the tool of the owner, name and agent. One that does not exist is not an error.
	DeleteTool(owner, name, agent string) error

	// InsertToken adds a token. TOKEN_EXISTS when there is one of that name that is not revoked.
	InsertToken(t *Token) error

	// UpdateToken writes every field of a token that is there.
	UpdateToken(t *Token) error
}

// EventFilter says which events; the zero value means all.
type EventFilter struct {
	Owner     string // of this principal; "" for all
	AgentName string // compared without case
	AgentUID  string // of this agent, not others of its name
	TaskID    string
	Types     []EventType // of one of these types
	Quiet     bool        // no output, steps and messages but those of OutputOf
	OutputOf  string      // id of a task; only with Quiet
}

// TaskFilter says which tasks; the zero value means all.
type TaskFilter struct {
	Owner     string   // of this principal; "" for all
	AgentName string   // of agents of this name, compared without case
	Toolset   *Toolset // of agents of this toolset; nil for all
	Place     string   // of agents of this place
	Project   string   // of agents of this project
	Status    TaskStatus
	Source    Source
	Since     time.Time // created then or later
	Until     time.Time // created before; zero for no limit
	Text      string    // in the summary or the first 4 KiB of the description, whatever its case
}

// Request is a mutating call that was done, remembered so that it is not done again.
type Request struct {
	Principal string
	ID        string // the caller's choice
	Method    string
	BodyHash  string // hex SHA-256 of the request without its id
	AgentUID  string // what it made or changed
	TaskID    string
	CreatedAt time.Time
}
