package fleet

import (
	"context"
	"time"
)

// Store keeps the state of the fleet. One transaction changes the state, appends the event that describes the change, and
// remembers the request that caused it.
//
// Errors that callers must distinguish are *Error or ErrLeaseLost. AGENT_EXISTS, AGENT_BUSY and TOKEN_EXISTS come from unique indexes,
// at the write or at the commit. Other errors mean that the store does not work.
type Store interface {
	// Update runs fn in a transaction and commits the transaction if fn returns nil. Otherwise it returns fn's error
	// unchanged. fn may run more than once, each time on fresh state, so it must only read and write tx. Rows that fn has
	// read by a key or a name do not change before the commit. The error of a write may come only from a later call on tx or
	// from Update itself. Likewise, the Revision that a write sets may be set only when Update returns. When Update returns,
	// the appended events are in the log.
	//
	// If ctx has a lease (WithLease) that another owner has taken, Update writes nothing and returns ErrLeaseLost. If fn
	// fails, Update returns the error of fn instead.
	//
	// If ctx has an unwritten entry of the audit log (WithAudit) and the transaction writes something, it also writes the entry.
	Update(ctx context.Context, fn func(tx Tx) error) error

	// View runs fn on one consistent state, which fn cannot change. As with Update, fn may run more than once.
	View(ctx context.Context, fn func(tx ReadTx) error) error

	// LastSeq returns the Seq of the newest event; 0 if the log is empty. It must be cheap, because each read of the
	// snapshot calls it.
	LastSeq(ctx context.Context) (int64, error)

	// TokensByHash returns the tokens with the hashes, by hash, including expired and revoked ones. It must be cheap, because
	// each call with a token needs it.
	TokensByHash(ctx context.Context, hashes []string) (map[string]*Token, error)

	// Now returns the time by the store's clock, which all processes share. It is exact to about a millisecond, and does not
	// ask the store.
	Now() time.Time

	// Subscribe returns a channel that receives a signal after each commit of this process or another one, and a function
	// that ends the subscription. Several commits may cause one signal, but none is missed: the channel has a buffer for one
	// signal. The signal for a commit of another process may come up to a second later.
	Subscribe() (signal <-chan struct{}, cancel func())

	// AcquireLease takes or renews the lease on the key for the owner. The lease expires after ttl, by the store's clock, which all
	// processes share. AcquireLease returns the epoch of the lease, or 0 if another owner has a lease that has not expired. The
	// epoch increases whenever the lease gets another owner or is released.
	AcquireLease(ctx context.Context, key, owner string, ttl time.Duration) (epoch int64, err error)

	// RenewLeases renews the owner's leases on the keys and returns their epochs by key. It also renews expired leases that
	// nobody else has taken. It never makes a lease shorter. Keys on which the owner has no lease are missing in the result.
	RenewLeases(ctx context.Context, owner string, ttl time.Duration, keys []string) (epochs map[string]int64, err error)

	// ReleaseLease gives the lease back. It does nothing if the owner does not have the lease.
	ReleaseLease(ctx context.Context, key, owner string) error

	// Leases returns the owners, by key, of the leases whose keys begin with the prefix and that have not expired.
	Leases(ctx context.Context, prefix string) (owners map[string]string, err error)

	// RecordHeartbeat records that the server is alive now. justStarted means that this is its first heartbeat since its start. If the
	// server was forgotten (ForgetReplica), RecordHeartbeat records nothing and ok is false.
	RecordHeartbeat(ctx context.Context, r Replica, justStarted bool) (ok bool, err error)

	// Replicas returns the recorded servers that were not forgotten, sorted by name.
	Replicas(ctx context.Context) ([]Replica, error)

	// ForgetReplica removes the server with the name from Replicas. RecordHeartbeat does not record that server again, but a
	// server of another machine can use the name. ForgetReplica does nothing if the server was never recorded.
	ForgetReplica(ctx context.Context, name string) error

	// NoteDone records that the work that the key names was last done the given time ago. It does not notify subscribers.
	NoteDone(ctx context.Context, key string, ago time.Duration) error

	// LastDone returns how long ago the work was last done, as NoteDone recorded it. It uses the store's clock, because the clocks
	// of processes may differ. ok is false if the work was never done.
	LastDone(ctx context.Context, key string) (ago time.Duration, ok bool, err error)

	// EnsureSecret returns the secret with the name. The first call stores value. Later calls, in every process, return the stored
	// value. EnsureSecret does not notify subscribers, and no transaction reads it.
	EnsureSecret(ctx context.Context, name string, value []byte) ([]byte, error)

	// Prune removes old rows of the kind, at most limit of each table, and returns their number.
	Prune(ctx context.Context, kind PruneKind, before time.Time, limit int) (removed int, err error)

	// PutAudit writes entries of the audit log in one transaction. It adds the entries without an ID, and updates Outcome and
	// Target of the entries with an ID. It does not notify subscribers.
	PutAudit(ctx context.Context, entries []AuditEntry) error

	// Audit returns the matching entries of the audit log, at most limit, newest first.
	Audit(ctx context.Context, f AuditFilter, limit int) ([]AuditEntry, error)

	// Full reports whether the store is nearly full, as far as it knows, and since when. A nearly full store accepts only writes
	// that end or remove something. ErrStoreFull is returned by Insert of agents, tasks, messages, questions, sessions, tools and
	// deliveries, by Put of payloads, attachments and bundles, and by Append of output or of a large event; the transaction can
	// continue. If there is no space at all, Update returns ErrStoreFull.
	Full() (since time.Time, full bool)

	// Schema returns the version of the database's schema, and the version that it had when the store was opened, which is not older than
	// what this program needs. current is greater if a newer program has upgraded the database since then.
	Schema(ctx context.Context) (current, atOpen int64, err error)

	// Size returns the size of the database, in bytes.
	Size(ctx context.Context) (int64, error)

	// Close waits for transactions and closes the store.
	Close() error
}

// ErrStoreFull is the error of a write for which the store has no space.
var ErrStoreFull = Errorf(ReasonLimitReached, "the disk with the server's data is full: free space on it, `fleet doctor` on the server's machine says how; until then the server accepts nothing new").
	With("limit", "disk").After(LimitRetryAfter)

// ReadTx reads one consistent state. Its methods return nil and no error if the requested row does not exist.
type ReadTx interface {
	AgentReader
	TaskReader
	MessageReader
	EventReader
	SessionReader
	TokenReader
	IdentityReader
	ResourceReader
	LedgerReader
	DeliveryReader
}

// Tx reads and writes one transaction.
type Tx interface {
	ReadTx

	// Insert adds the row, and sets its Revision if it has one. A row with the same key makes it fail: with AGENT_EXISTS if
	// the owner has an agent with that name, AGENT_BUSY if the task is running and its agent already runs a task,
	// SESSION_EXISTS if the owner has an open session with that key, and TOKEN_EXISTS if a token with that name is not
	// revoked. A tool replaces a tool with the same owner, name and agent, and keeps that tool's CreatedAt. A resource replaces
	// the resource of the same kind and name. An entry of the ledger also changes the total of its window.
	Insert(r Row) error

	// Update writes the fields of an existing row, and sets its Revision if it has one. It never changes the AgentConfig of
	// an agent, a task that has ended, a final question, or a message that was delivered or refused. It writes only
	// DeliveredAt, RefusalReason and RefusalText of a message, the status and the answer of a question, the Groups of an identity,
	// and Status, Tries, NextAt and Attempts of a delivery. Requests, tools, resources, reviews and entries of the ledger cannot
	// be updated.
	Update(r Row) error

	// Delete removes a tool, a resource, or a task with all that belongs to it: its parts, messages, questions and events. Other
	// rows cannot be deleted. It returns an error if the task has not ended or does not exist; a tool or a resource need not
	// exist. The deliveries of a deleted webhook stay until Prune removes them. The caller appends an event in the same
	// transaction.
	Delete(r Row) error

	// Put stores a part of the task or agent with the id. It replaces an earlier part of the same type, but appends a PayloadPiece. The
	// task may have ended. Nil Changes remove the earlier ones. Empty Labels remove the labels of the task.
	Put(id string, p Part) error

	// Append adds an event to the log. The log shows it when Update returns. Append does not set Seq; only events that were
	// read have one. The log is complete up to its newest event: an event with a lower Seq never appears later.
	Append(e *Event) error
}

// Row is a row that a transaction can write.
type Row interface{ row() }

func (*Agent) row()          {}
func (*Task) row()           {}
func (*Message) row()        {}
func (*Question) row()       {}
func (*Request) row()        {}
func (*Session) row()        {}
func (*RegisteredTool) row() {}
func (*Token) row()          {}
func (*Identity) row()       {}
func (*Resource) row()       {}
func (*LedgerEntry) row()    {}
func (*Review) row()         {}

// Part is something that is stored with a task or, if it is *Remains, with an agent.
type Part interface{ part() }

// Payload is the payload of a task. It is stored compressed.
type Payload []byte

// PayloadPiece is added to the end of a task's payload.
type PayloadPiece []byte

// Attachments are the attachments of a task that has none yet.
type Attachments []Attachment

func (Payload) part()      {}
func (PayloadPiece) part() {}
func (Attachments) part()  {}
func (*Changes) part()     {}
func (*TaskChecks) part()  {}
func (*Remains) part()     {}
func (Labels) part()       {}
func (*QueueEntry) part()  {}
func (*Landing) part()     {}

// Request is a completed call that changed something. It is remembered so that a repeated call is not executed again.
type Request struct {
	Principal string
	ID        string // the caller's choice
	Method    string
	BodyHash  string // hex SHA-256 of the request without its id
	AgentUID  string // the agent that the call created or changed
	TaskID    string
	CreatedAt time.Time
}
