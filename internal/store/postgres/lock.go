package postgres

import (
	"hash/fnv"
	"math"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

const (
	lockAll  = `SELECT pg_advisory_xact_lock(k) FROM unnest($1::bigint[]) AS k`
	shareAll = `SELECT pg_advisory_xact_lock_shared(k) FROM unnest($1::bigint[]) AS k`
)

// locks are the advisory locks of a write transaction. A view has none. A key names what must not change, or must not appear,
// before the commit; whoever reads it by the key and whoever writes it lock it first. Two keys of the same hash only make
// transactions wait for each other.
type locks struct {
	held            map[int64]bool // true: against everybody, false: shared
	pending, shared []int64        // to be taken before the next statement
}

// lock makes the transaction hold locks on the keys, each of a kind and what it names, and reports whether it held
// one of them not before.
func (t *readTx) lock(kind string, names ...string) (news bool) {
	if t.view {
		return false
	}
	for _, name := range names {
		k := lockKey(kind, name)
		if only, ok := t.locks.held[k]; !ok || !only {
			t.locks.add(k, true)
			t.locks.pending = append(t.locks.pending, k)
			news = true
		}
	}
	return news
}

// share makes the transaction hold a lock on the key that keeps out those who lock it, and not those who share it.
func (t *readTx) share(kind, name string) {
	if k := lockKey(kind, name); !t.view {
		if _, ok := t.locks.held[k]; !ok {
			t.locks.add(k, false)
			t.locks.shared = append(t.locks.shared, k)
		}
	}
}

func (l *locks) add(k int64, only bool) {
	if l.held == nil {
		l.held = map[int64]bool{}
	}
	l.held[k] = only
}

// aloneKey is the lock of transactions that are tried again because others were in their way. It sorts before all others.
const aloneKey = math.MinInt64

// alone makes the transaction wait first until no other one is being tried again. So those that have deadlocked do not do so
// again with each other, and one does not lose to many that come in the other order.
func (l *locks) alone() {
	l.add(aloneKey, true)
	l.pending = append(l.pending, aloneKey)
}

// queue queues the pending locks, and returns as many statements as it has queued.
func (l *locks) queue(b *pgx.Batch) (n int) {
	for _, kind := range []struct {
		statement string
		keys      *[]int64
	}{{lockAll, &l.pending}, {shareAll, &l.shared}} {
		if len(*kind.keys) > 0 {
			slices.Sort(*kind.keys) // one order for everybody, so that fewer transactions deadlock
			b.Queue(kind.statement, *kind.keys)
			*kind.keys = nil
			n++
		}
	}
	return n
}

// lockKey returns the number of the key.
func lockKey(kind, name string) int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(kind + "\x00" + name))
	return int64(h.Sum64()) //nolint:gosec // any number is good
}

// join returns the parts as one name.
func joined(parts ...string) string { return strings.Join(parts, "\x00") }

// These are the kinds of keys.
const (
	lockAgent    = "agent"     // an agent with its tasks and what belongs to them, by uid
	lockName     = "name"      // the agents of a name, in lower case
	lockPlace    = "workspace" // the agents of a workspace
	lockHoldings = "holdings"  // the agents and tasks of an owner; who adds one shares it
	lockProject  = "project"   // the agents and tasks of a project that has limits; who adds one counts them first
	lockTask     = "task"      // messages, questions, payload and so on of a task
	lockRequest  = "request"
	lockSession  = "session"  // a session with its tasks, by id
	lockKeyed    = "key"      // the open session of a key
	lockSessions = "sessions" // the open sessions of an owner
	lockTools    = "tools"    // the tools of an owner
	lockToken    = "token"    // the tokens of a name
	lockHash     = "hash"     // the token of a hash
	lockTokens   = "tokens"   // the tokens of an agent

	lockSubject   = "subject"   // the identity of a subject
	lockPrincipal = "principal" // the identity of a principal
)

// settled returns what read returns, once the transaction holds the locks on all of it.
func settled[T any](t *readTx, kind string, names func(T) []string, read func() ([]T, error)) ([]T, error) {
	for {
		got, err := read()
		if err != nil {
			return nil, err
		}
		news := false
		for _, v := range got {
			news = t.lock(kind, names(v)...) || news
		}
		if !news {
			return got, nil
		}
	}
}
