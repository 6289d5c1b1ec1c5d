package record

import (
	"strings"

	"fleet/internal/fleet"
)

// ReadDB reads in a transaction of a database. Its queries have question marks for their arguments. A store whose database
// has no type for times or lists converts the time.Time and TextList arguments.
type ReadDB interface {
	// Query calls f with every row of the result until f fails. If Query fails, the transaction cannot commit.
	Query(f func(Scanner) error, query string, args ...any) error

	// Lock keeps other write transactions from reading or writing the rows that the kind and a name stand for, until this
	// transaction ends. acquired is false if this transaction already holds the locks on all of the names. In a view, or if the
	// database has only one writer, Lock does nothing and returns false.
	Lock(kind string, names ...string) (acquired bool)

	// Fail makes the transaction fail with err, unless it has failed before, and returns err.
	Fail(err error) error

	// Dialect returns the SQL of this database that differs in others.
	Dialect() *Dialect
}

// DB reads and writes in a transaction of a database.
type DB interface {
	ReadDB

	// Exec executes a write, perhaps only with a later statement. explain converts an error of the database to the error for
	// the caller. If the write fails, the transaction cannot commit.
	Exec(explain func(error) error, query string, args ...any) error

	// Revise executes an update that ends with RETURNING and the new revision of the row, and stores that in *revision. It fails
	// if the row does not exist.
	Revise(revision *int64, explain func(error) error, query string, args ...any) error

	// LockShared keeps out transactions that take the same lock with Lock, but not those that take it with LockShared. It does
	// nothing if the database has only one writer.
	LockShared(kind, name string)

	// CheckSpace returns fleet.ErrStoreFull if the disk is too full to add something. The transaction can continue after that.
	CheckSpace() error

	// Task returns the task with the id, see fleet.ReadTx.
	Task(id string) (*fleet.Task, error)

	// InsertTask adds the task, see fleet.Tx.Insert.
	InsertTask(task *fleet.Task) error

	// UpdateTask writes the task, see fleet.Tx.Update.
	UpdateTask(task *fleet.Task) error

	// Violates reports whether err violates the unique index.
	Violates(err error, index UniqueIndex) bool
}

// Dialect is the SQL that differs between databases.
type Dialect struct {
	InList        string // the condition that a column is in a TextList
	AppendPayload string // adds a piece to the payload of a task: its id, the size of the piece, and the piece

	// DeleteTaskRows delete the rows of a task from the tables that only this database has.
	DeleteTaskRows []string
}

// TextList is a list of texts as an argument of a query.
type TextList []string

// UniqueIndex is a unique index. In their errors, databases name either the index or its columns; Column is the first one, as
// "table.column".
type UniqueIndex struct{ Index, Column string }

// These are the unique indexes whose violation callers distinguish.
var (
	uniqueAgentName  = UniqueIndex{"agents_name", "agents.name_key"}
	uniqueTokenName  = UniqueIndex{"tokens_name", "tokens.name"}
	uniqueTokenHash  = UniqueIndex{"tokens_hash", "tokens.hash"}
	uniqueSessionKey = UniqueIndex{"sessions_key", "sessions.toolset"}
)

// These are the kinds of locks.
const (
	LockAgent     = "agent"     // an agent with its tasks, by uid
	LockName      = "name"      // the agents with a name, by the name's key
	LockWorkspace = "workspace" // the agents of a workspace
	LockOwner     = "holdings"  // the agents and tasks of an owner; a transaction that adds one shares the lock
	LockProject   = "project"   // the agents and tasks of a project with limits; a transaction that adds one counts them first
	LockTask      = "task"      // the messages, questions, payload and so on of a task
	LockSession   = "session"   // a session with its tasks, by id

	lockRequest     = "request"   // a request, by principal and id
	lockSessionKey  = "key"       // the open session with a key
	lockSessions    = "sessions"  // the open sessions of an owner
	lockTools       = "tools"     // the tools of an owner
	lockToken       = "token"     // the tokens with a name
	lockTokenHash   = "hash"      // the token with a hash
	lockAgentTokens = "tokens"    // the tokens of an agent
	lockSubject     = "subject"   // the identity of a subject
	lockPrincipal   = "principal" // the identity of a principal
	lockResource    = "resource"  // a resource, by kind and name
	lockLedger      = "ledger"    // the ledger of a budget
	lockDelivery    = "delivery"  // a delivery, by id
)

// TaskLockName returns the name by which a task is locked with its agent. A task without an agent is locked alone.
func TaskLockName(t *fleet.Task) string {
	if t.AgentUID == "" {
		return "task " + t.ID
	}
	return t.AgentUID
}

// ReadTx reads the rows whose SQL is the same in all databases.
type ReadTx struct{ DB ReadDB }

// Tx reads and writes the rows whose SQL is the same in all databases.
type Tx struct{ DB DB }

// QueryAll returns every row of the query's result, converted by scan.
func QueryAll[T any](t ReadDB, scan func(Scanner) (T, error), query string, args ...any) (out []T, err error) {
	err = t.Query(func(row Scanner) error {
		v, err := scan(row)
		out = append(out, v)
		return err
	}, query, args...)
	if err != nil {
		return nil, err
	}
	return out, nil
}

// QueryFirst returns the first row of the query's result, converted by scan. It returns the zero value if there are no rows.
func QueryFirst[T any](t ReadDB, scan func(Scanner) (T, error), query string, args ...any) (v T, err error) {
	values, err := QueryAll(t, scan, query, args...)
	if err == nil && len(values) > 0 {
		v = values[0]
	}
	return v, err
}

// ScanInto returns a function that scans a row of two columns, a key and its value, into the map.
func ScanInto[K ~string, V any](m map[K]V) func(Scanner) error {
	return func(row Scanner) error {
		var key string
		var value V
		err := row.Scan(&key, &value)
		m[K(key)] = value
		return err
	}
}

// ReadLocked returns the values that read returns, with a lock on each. kind and name(value) say which lock a value needs. The values
// may change until they are locked, so ReadLocked calls read again whenever it had to take a lock.
func ReadLocked[T any](t ReadDB, kind string, name func(T) string, read func() ([]T, error)) ([]T, error) {
	for {
		values, err := read()
		if err != nil {
			return nil, err
		}
		acquired := false
		for _, v := range values {
			acquired = t.Lock(kind, name(v)) || acquired
		}
		if !acquired {
			return values, nil
		}
	}
}

// ScanInt scans a number.
func ScanInt(row Scanner) (n int, err error) { return n, row.Scan(&n) }

// ScanInt64 scans a number.
func ScanInt64(row Scanner) (n int64, err error) { return n, row.Scan(&n) }

// ScanString scans a text.
func ScanString(row Scanner) (s string, err error) { return s, row.Scan(&s) }

// ScanBytes scans bytes.
func ScanBytes(row Scanner) (b []byte, err error) { return b, row.Scan(&b) }

// insertStatement returns the statement that inserts a row with the columns.
func insertStatement(table, columns string) string {
	return `INSERT INTO ` + table + ` (` + columns + `) VALUES (` + Placeholders(columns) + `)`
}

// toTexts returns the values as texts.
func toTexts[T ~string](values []T) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = string(v)
	}
	return out
}

// joinKey joins the parts to one name for Lock.
func joinKey(parts ...string) string { return strings.Join(parts, "\x00") }
