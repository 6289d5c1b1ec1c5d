package postgres

import (
	"hash/fnv"
	"math"
	"slices"

	"github.com/jackc/pgx/v5"
)

const (
	takeExclusiveLocks = `SELECT pg_advisory_xact_lock(k) FROM unnest($1::bigint[]) AS k`
	takeSharedLocks    = `SELECT pg_advisory_xact_lock_shared(k) FROM unnest($1::bigint[]) AS k`
)

// locks are the advisory locks of a write transaction. A view has no locks. A key names rows that must not change or
// appear before the commit. Every transaction locks the key before it reads or writes these rows. If two keys have the
// same hash, transactions only wait for each other unnecessarily.
type locks struct {
	held                            map[int64]bool // by key: true for an exclusive lock, false for a shared lock; includes the pending locks
	pendingExclusive, pendingShared []int64        // exclusive and shared locks to take before the next statement
}

// lock makes the transaction take exclusive locks on the keys before its next statement. A key consists of the kind and a
// name. acquired is false if the transaction already holds all these locks, and in a view.
func (t *baseTx) lock(kind string, names ...string) (acquired bool) {
	if t.isView {
		return false
	}
	for _, name := range names {
		k := lockKey(kind, name)
		if !t.locks.held[k] {
			t.locks.addExclusive(k)
			acquired = true
		}
	}
	return acquired
}

// lockShared makes the transaction take a shared lock on the key before its next statement. The lock keeps out transactions
// that lock the key, but not transactions that share it.
func (t *baseTx) lockShared(kind, name string) {
	if k := lockKey(kind, name); !t.isView {
		if _, ok := t.locks.held[k]; !ok {
			t.locks.addShared(k)
		}
	}
}

func (l *locks) addExclusive(k int64) {
	l.setHeld(k, true)
	l.pendingExclusive = append(l.pendingExclusive, k)
}

func (l *locks) addShared(k int64) {
	l.setHeld(k, false)
	l.pendingShared = append(l.pendingShared, k)
}

func (l *locks) setHeld(k int64, exclusive bool) {
	if l.held == nil {
		l.held = map[int64]bool{}
	}
	l.held[k] = exclusive
}

// retryKey is the key that transactions lock when they are retried after a conflict. It sorts before all other keys.
const retryKey = math.MinInt64

// lockRetry makes the transaction wait, before its first statement, until no other transaction is being retried. So transactions that
// have deadlocked do not deadlock with each other again.
func (l *locks) lockRetry() {
	l.addExclusive(retryKey)
}

// queue queues statements that take the pending locks, and returns the number of these statements.
func (l *locks) queue(b *pgx.Batch) (n int) {
	for _, pending := range []struct {
		statement string
		keys      *[]int64
	}{{takeExclusiveLocks, &l.pendingExclusive}, {takeSharedLocks, &l.pendingShared}} {
		if len(*pending.keys) > 0 {
			slices.Sort(*pending.keys) // all transactions use the same order, so that fewer of them deadlock
			b.Queue(pending.statement, *pending.keys)
			*pending.keys = nil
			n++
		}
	}
	return n
}

// lockKey returns the number of the advisory lock for the key.
func lockKey(kind, name string) int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(kind + "\x00" + name))
	return int64(h.Sum64()) //nolint:gosec // any number is good
}
