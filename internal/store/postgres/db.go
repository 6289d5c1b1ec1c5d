package postgres

import (
	"sync"

	"fleet/internal/store/record"
)

var dialect = record.Dialect{
	InList: `= ANY (?)`,
	AppendPayload: `INSERT INTO payloads AS p (task_id, size, gzip) VALUES (?, ?, ?)
		ON CONFLICT (task_id) DO UPDATE SET size = p.size + excluded.size, gzip = p.gzip || excluded.gzip`,
	// The inbox has the events that are not in the log yet. They would move there after the task was deleted.
	DeleteTaskRows: []string{`DELETE FROM inbox WHERE task_id = ?`},
}

// statements and updates cache the queries of package record in their form for Postgres, by query. updates has the queries that
// failIfNoRow has changed.
var statements, updates sync.Map

// memoize returns f(query), which it computes only once for each query. It never forgets results, because there are few different
// queries.
func memoize(cache *sync.Map, query string, f func(string) string) string {
	if text, ok := cache.Load(query); ok {
		return text.(string) //nolint:forcetypeassert // only strings are stored
	}
	text := f(query)
	cache.Store(query, text)
	return text
}

// Query implements record.ReadDB.
func (t *baseTx) Query(f func(scanner) error, query string, args ...any) error {
	if err := t.forEachRow(f, memoize(&statements, query, numberPlaceholders), args...); err != nil {
		return t.fail(err)
	}
	return nil
}

// Lock implements record.ReadDB.
func (t *baseTx) Lock(kind string, names ...string) bool { return t.lock(kind, names...) }

// Fail implements record.ReadDB.
func (t *baseTx) Fail(err error) error { return t.fail(err) }

// Dialect implements record.ReadDB.
func (t *baseTx) Dialect() *record.Dialect { return &dialect }

// Exec implements record.DB.
func (t *tx) Exec(explain func(error) error, query string, args ...any) error {
	return t.execLater(explain, memoize(&statements, query, numberPlaceholders), args...)
}

// Revise implements record.DB.
func (t *tx) Revise(revision *int64, explain func(error) error, query string, args ...any) error {
	return t.reviseLater(revision, explain, memoize(&updates, query, func(q string) string { return failIfNoRow("", numberPlaceholders(q)) }), args...)
}

// LockShared implements record.DB.
func (t *tx) LockShared(kind, name string) { t.lockShared(kind, name) }

// CheckSpace implements record.DB.
func (t *tx) CheckSpace() error { return t.checkSpace() }

// Violates implements record.DB.
func (t *tx) Violates(err error, index record.UniqueIndex) bool {
	return isUniqueViolation(err, index.Index)
}
