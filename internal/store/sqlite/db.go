package sqlite

import "fleet/internal/store/record"

var dialect = record.Dialect{
	In: uidsIn,
	AppendPayload: `INSERT INTO payloads AS p (task_id, size, gzip) VALUES (?, ?, ?)
		ON CONFLICT (task_id) DO UPDATE SET size = p.size + excluded.size, gzip = CAST(p.gzip || excluded.gzip AS BLOB)`,
}

// Query implements record.ReadDB.
func (t *readTx) Query(f func(scanner) error, query string, args ...any) error {
	if err := t.each(f, query, encode(args)...); err != nil {
		return t.failed(err)
	}
	return nil
}

// Lock implements record.ReadDB. There is one writer.
func (t *readTx) Lock(string, ...string) bool { return false }

// Failed implements record.ReadDB.
func (t *readTx) Failed(err error) error { return t.failed(err) }

// Dialect implements record.ReadDB.
func (t *readTx) Dialect() *record.Dialect { return &dialect }

// Exec implements record.DB.
func (t *tx) Exec(explain func(error) error, query string, args ...any) error {
	if _, err := t.exec(query, args...); err != nil {
		return t.failed(explain(err))
	}
	return nil
}

// Revise implements record.DB.
func (t *tx) Revise(revision *int64, explain func(error) error, query string, args ...any) error {
	n, err := t.revise(query, args...)
	if err != nil {
		return t.failed(explain(err))
	}
	*revision = n
	return nil
}

// Share implements record.DB. There is one writer.
func (t *tx) Share(string, string) {}

// Grow implements record.DB.
func (t *tx) Grow() error { return t.grow() }

// Taken implements record.DB.
func (t *tx) Taken(err error, index record.Unique) bool { return taken(err, index.Column) }
