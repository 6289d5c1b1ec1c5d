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
	// state, so it does nothing but read and write tx. What is wrong with a write may be told by a later call on tx, or by Update, and the
	// Revision that it sets may be set no sooner than when Update returns. The error of fn comes back as it is. What fn has read by a key or a
	// name does not change before the commit. When Update returns, what it appended is in the log.
	//
	// If ctx has a lease (WithLease), the transaction holds only while the lease does: ErrLeaseLost, and nothing is written, when
	// another owner has taken it.
	//
	// If ctx has a line of the audit log that is not written yet (WithAudit), a transaction that writes something adds it.
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

	// Release gives the lease back. It does nothing if the owner does not have the lease.
	Release(ctx context.Context, key, owner string) error

	// Leases returns the owners, by key, of the leases whose keys begin with the prefix and whose time is not over.
	Leases(ctx context.Context, prefix string) (owners map[string]string, err error)

	// HearReplica keeps that the server of the name was heard now. fresh means that it has just started. ok is false, and nothing is
	// kept, if this server of this machine was forgotten.
	HearReplica(ctx context.Context, r Replica, fresh bool) (ok bool, err error)

	// Replicas returns the servers that were heard and not forgotten, by name.
	Replicas(ctx context.Context) ([]Replica, error)

	// ForgetReplica forgets the server of the name, so that it is not heard any more. Another machine's server can have the name. It does
	// nothing if the server was never heard.
	ForgetReplica(ctx context.Context, name string) error

	// Note keeps under a key that something was done, so long ago; no subscriber is told.
	Note(ctx context.Context, key string, ago time.Duration) error

	// Noted returns how long ago something was last done, by the clock of the store: those of processes may differ. ok is false
	// when it never was.
	Noted(ctx context.Context, key string) (ago time.Duration, ok bool, err error)

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

	// PutAudit writes lines of the audit log in one transaction: it adds those without an ID, and writes the Outcome and the
	// Target of those with one. No subscriber is told.
	PutAudit(ctx context.Context, entries []AuditEntry) error

	// Audit returns the lines of the audit log that match, at most limit, the newest first.
	Audit(ctx context.Context, f AuditFilter, limit int) ([]AuditEntry, error)

	// PruneAudit removes lines of the audit log from before the time, at most limit, and returns how many it has removed.
	PruneAudit(ctx context.Context, before time.Time, limit int) (removed int, err error)

	// Full says whether the store has so little room left that it takes only what ends and removes things, and since
	// when. Then InsertAgent, InsertTask, InsertMessage, InsertQuestion, InsertSession, PutTool, PutPayload, AppendPayload and Append of
	// output or of a large event return ErrStoreFull, and the transaction can go on. Update returns it when there is no
	// room at all.
	Full() (since time.Time, full bool)

	// Schema returns the version of the schema that the database has now, and the one that this program needs. The first is
	// higher when a newer program has upgraded the database meanwhile.
	Schema(ctx context.Context) (have, want int64, err error)

	// Size returns the size of the database, in bytes.
	Size(ctx context.Context) (int64, error)

	// Close waits for transactions and closes the store.
	Close() error
}

// ErrStoreFull is the error of a write that the store has no room for.
var ErrStoreFull = Errorf(ReasonLimitReached, "the disk of the server's data is full: free space there, or delete agents; until then nothing new is taken").
	With("limit", "disk")

// ReadTx reads one consistent state. What is not there is nil, not an error.
type ReadTx interface {
	AgentReader
	TaskReader
	MessageReader
	EventReader
	SessionReader
	TokenReader
	IdentityReader
}

// Tx reads and writes one transaction.
type Tx interface {
	ReadTx
	AgentWriter
	TaskWriter
	MessageWriter
	EventWriter
	SessionWriter
	TokenWriter
	IdentityWriter
}

// EventFilter says which events; the zero value means all.
type EventFilter struct {
	Owner     string   // of this principal; "" for all
	Shared    []string // with an Owner: also of these agents, by uid
	Projects  []string // of agents of these projects, each a name or PLACE/NAME; empty: of all agents
	AgentName string   // compared without case
	AgentUID  string   // of this agent, not others of its name
	TaskID    string
	Types     []EventType // of one of these types
	Quiet     bool        // none of OutputEvents, except of the tasks in OutputOf
	OutputOf  []string    // ids of tasks; only with Quiet
}

// TaskFilter says which tasks; the zero value means all.
type TaskFilter struct {
	Owner     string   // of this principal; "" for all
	Shared    []string // with an Owner: also of these agents, by uid
	Projects  []string // of agents of these projects, each a name or PLACE/NAME; empty: of all agents
	AgentUID  string   // of this agent, not others of its name
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

// TaskWindow says which of the tasks that match are wanted.
type TaskWindow struct {
	Limit, Offset int
	After         string // id of a task: those behind it, in place of those behind Offset; ignored if there is no such task
	Count         int    // how many are counted at most
}

// FoundTasks are the wanted ones of the tasks that match.
type FoundTasks struct {
	Tasks []*Task
	Total int  // number of tasks that match
	More  bool // more than Total may match, but no more are counted
	Last  bool // no task that matches is behind these
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
