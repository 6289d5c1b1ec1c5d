package fleet

import (
	"context"
	"time"
)

// Store keeps the state of the fleet. One transaction changes the state, appends the event that describes the change, and
// remembers the request that asked for it.
//
// Errors that callers must distinguish are *Error: AGENT_EXISTS, AGENT_BUSY and TOKEN_EXISTS come from unique indexes, at
// the write or at the commit. Other errors mean that the store does not work.
type Store interface {
	// Update runs fn in a transaction and commits it when fn returns nil. fn may run more than once, each time on fresh
	// state, so it must only read and write tx. A later call on tx, or Update itself, may report the error of a write. The
	// Revision that a write sets may not be set before Update returns. Update returns the error of fn unchanged. Rows that fn
	// has read by a key or a name do not change before the commit. When Update returns, the appended events are in the log.
	//
	// If ctx has a lease (WithLease) that another owner has taken, Update writes nothing and returns ErrLeaseLost.
	//
	// If ctx has an entry of the audit log that is not written yet (WithAudit), a transaction that writes something adds it.
	Update(ctx context.Context, fn func(tx Tx) error) error

	// View runs fn on one consistent state, which fn cannot change. As with Update, fn may run more than once.
	View(ctx context.Context, fn func(tx ReadTx) error) error

	// LastSeq returns the Seq of the newest event; 0 if there is none. It is cheap: reads call it each time.
	LastSeq(ctx context.Context) (int64, error)

	// Subscribe returns a channel that receives after something has been committed, by this process or another one,
	// and a function that ends the subscription. Signals may be merged but not
	// lost: the channel has a buffer for one signal. Commits of other processes may show up to a second later.
	Subscribe() (signal <-chan struct{}, cancel func())

	// Lease takes or renews the lease on the key for the owner, for ttl from now by the clock of the store, which all
	// processes share. It returns the epoch of the lease, or 0 if another owner has a lease that has not expired. The epoch
	// increases whenever the lease gets another owner or was released.
	Lease(ctx context.Context, key, owner string, ttl time.Duration) (epoch int64, err error)

	// RenewLeases renews all leases of the owner, also expired ones that nobody has taken, and returns their epochs by key. It
	// never makes a lease shorter.
	RenewLeases(ctx context.Context, owner string, ttl time.Duration) (epochs map[string]int64, err error)

	// Release gives the lease back. It does nothing if the owner does not have the lease.
	Release(ctx context.Context, key, owner string) error

	// Leases returns the owners, by key, of the leases whose keys begin with the prefix and that have not expired.
	Leases(ctx context.Context, prefix string) (owners map[string]string, err error)

	// HearReplica records that the server with the name is alive now. fresh means that it has just started. If this server of
	// this machine was forgotten, HearReplica records nothing and ok is false.
	HearReplica(ctx context.Context, r Replica, fresh bool) (ok bool, err error)

	// Replicas returns the recorded servers that were not forgotten, sorted by name.
	Replicas(ctx context.Context) ([]Replica, error)

	// ForgetReplica forgets the server with the name, so that HearReplica does not record it any more. A server of another
	// machine can then use the name. ForgetReplica does nothing if the server was never recorded.
	ForgetReplica(ctx context.Context, name string) error

	// Note records under a key that something was done that long ago. It does not notify subscribers.
	Note(ctx context.Context, key string, ago time.Duration) error

	// Noted returns how long ago something was last done, by the clock of the store, because the clocks of processes may
	// differ. ok is false if it was never done.
	Noted(ctx context.Context, key string) (ago time.Duration, ok bool, err error)

	// Secret returns the secret with the name. The first call stores value. Later calls, in every process, return the stored
	// value. Secret does not notify subscribers, and no transaction reads it.
	Secret(ctx context.Context, name string, value []byte) ([]byte, error)

	// Prune removes old rows, at most limit of each kind, and returns how many it has removed: events and remembered requests
	// from before the time, tokens of agents that were revoked before it, and leases that expired before it. It keeps the newest
	// event, and all tasks and agents.
	Prune(ctx context.Context, before time.Time, limit int) (removed int, err error)

	// PrunePayloads removes the payloads of tasks that ended before the time, and the remains of agents that were deleted
	// before it, at most limit of each, and returns how many it has removed. It sets PayloadRemoved in these tasks.
	PrunePayloads(ctx context.Context, before time.Time, limit int) (removed int, err error)

	// PutAudit writes entries of the audit log in one transaction. It adds entries without an ID, and updates the Outcome and
	// the Target of entries with an ID. It does not notify subscribers.
	PutAudit(ctx context.Context, entries []AuditEntry) error

	// Audit returns the entries of the audit log that match, at most limit, newest first.
	Audit(ctx context.Context, f AuditFilter, limit int) ([]AuditEntry, error)

	// PruneAudit removes entries of the audit log from before the time, at most limit, and returns how many it has removed.
	PruneAudit(ctx context.Context, before time.Time, limit int) (removed int, err error)

	// Full reports whether the store is so full that it only accepts writes that end or remove something, and since when.
	// InsertAgent, InsertTask, InsertMessage, InsertQuestion, InsertSession, PutTool, PutPayload, AppendPayload and Append of
	// output or of a large event then return ErrStoreFull, and the transaction can continue. Update returns ErrStoreFull if
	// there is no space at all.
	Full() (since time.Time, full bool)

	// Schema returns the version of the database's schema, and the version that this program needs. have is higher if a newer
	// program has upgraded the database.
	Schema(ctx context.Context) (have, want int64, err error)

	// Size returns the size of the database, in bytes.
	Size(ctx context.Context) (int64, error)

	// Close waits for transactions and closes the store.
	Close() error
}

// ErrStoreFull is the error of a write for which the store has no space.
var ErrStoreFull = Errorf(ReasonLimitReached, "the disk of the server's data is full: free space there, or delete agents; until then nothing new is taken").
	With("limit", "disk")

// ReadTx reads one consistent state. Methods return nil, not an error, if something does not exist.
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

// EventFilter selects events; the zero value selects all.
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

// TaskFilter selects tasks; the zero value selects all.
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

// TaskWindow selects a page of the tasks that match.
type TaskWindow struct {
	Limit, Offset int
	After         string // id of a task: the page begins after it, and not at Offset; ignored if there is no such task
	Count         int    // maximum number of tasks to count
}

// FoundTasks is a page of the tasks that match.
type FoundTasks struct {
	Tasks []*Task
	Total int  // number of tasks that match
	More  bool // more than Total may match, but no more are counted
	Last  bool // no task that matches comes after these
}

// Request is a completed mutating call. It is remembered so that a repeated call is not executed again.
type Request struct {
	Principal string
	ID        string // the caller's choice
	Method    string
	BodyHash  string // hex SHA-256 of the request without its id
	AgentUID  string // agent that it created or changed
	TaskID    string
	CreatedAt time.Time
}
