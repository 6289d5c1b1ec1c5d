package postgres

import (
	"sync"

	"fleet/internal/store/record"
)

var dialect = record.Dialect{
	In: `= ANY (?)`,
	AppendPayload: `INSERT INTO payloads AS p (task_id, size, gzip) VALUES (?, ?, ?)
		ON CONFLICT (task_id) DO UPDATE SET size = p.size + excluded.size, gzip = p.gzip || excluded.gzip`,
}

// These have the forms for Postgres of the queries of package record: statements as they are, and updates with failIfNoRow.
var statements, updates sync.Map

// translated returns the result of f for the query. It keeps the result, because there are few different queries.
func translated(kept *sync.Map, query string, f func(string) string) string {
	if text, ok := kept.Load(query); ok {
		return text.(string) //nolint:forcetypeassert // only strings are stored
	}
	text := f(query)
	kept.Store(query, text)
	return text
}

// Query implements record.ReadDB.
func (t *readTx) Query(f func(scanner) error, query string, args ...any) error {
	if err := t.each(f, translated(&statements, query, numbered), args...); err != nil {
		return t.failed(err)
	}
	return nil
}

// Lock implements record.ReadDB.
func (t *readTx) Lock(kind string, names ...string) bool { return t.lock(kind, names...) }

// Failed implements record.ReadDB.
func (t *readTx) Failed(err error) error { return t.failed(err) }

// Dialect implements record.ReadDB.
func (t *readTx) Dialect() *record.Dialect { return &dialect }

// Exec implements record.DB.
func (t *tx) Exec(explain func(error) error, query string, args ...any) error {
	return t.execLater(explain, translated(&statements, query, numbered), args...)
}

// Revise implements record.DB.
func (t *tx) Revise(revision *int64, explain func(error) error, query string, args ...any) error {
	return t.reviseLater(revision, explain, translated(&updates, query, func(q string) string { return failIfNoRow("", numbered(q)) }), args...)
}

// Share implements record.DB.
func (t *tx) Share(kind, name string) { t.share(kind, name) }

// Grow implements record.DB.
func (t *tx) Grow() error { return t.grow() }

// Taken implements record.DB.
func (t *tx) Taken(err error, index record.Unique) bool { return taken(err, index.Index) }
