package sqlite

import (
	"encoding/json"

	"fleet/internal/store/record"
)

// inList is the condition that a column is in a list. Its argument is one JSON list, so that the statement is the same for any
// number of values.
const inList = `IN (SELECT value FROM json_each(?))`

// inProjects is the condition that a row belongs to an agent of some projects. Both of its arguments are the JSON list of the
// projects.
const inProjects = `agent_uid IN (SELECT uid FROM agents WHERE project <> ''
	AND (project IN (SELECT value FROM json_each(?)) OR place || '/' || project IN (SELECT value FROM json_each(?))))`

var dialect = record.Dialect{
	InList: inList,
	AppendPayload: `INSERT INTO payloads AS p (task_id, size, gzip) VALUES (?, ?, ?)
		ON CONFLICT (task_id) DO UPDATE SET size = p.size + excluded.size, gzip = CAST(p.gzip || excluded.gzip AS BLOB)`,
}

// Query implements record.ReadDB.
func (t *baseTx) Query(f func(scanner) error, query string, args ...any) error {
	if err := t.forEachRow(f, query, encode(args)...); err != nil {
		return t.fail(err)
	}
	return nil
}

// Lock implements record.ReadDB. There is one writer.
func (t *baseTx) Lock(string, ...string) bool { return false }

// Fail implements record.ReadDB.
func (t *baseTx) Fail(err error) error { return t.fail(err) }

// Dialect implements record.ReadDB.
func (t *baseTx) Dialect() *record.Dialect { return &dialect }

// Exec implements record.DB.
func (t *tx) Exec(explain func(error) error, query string, args ...any) error {
	if _, err := t.exec(query, args...); err != nil {
		return t.fail(explain(err))
	}
	return nil
}

// Revise implements record.DB.
func (t *tx) Revise(revision *int64, explain func(error) error, query string, args ...any) error {
	n, err := t.revise(query, args...)
	if err != nil {
		return t.fail(explain(err))
	}
	*revision = n
	return nil
}

// LockShared implements record.DB. There is one writer.
func (t *tx) LockShared(string, string) {}

// CheckSpace implements record.DB.
func (t *tx) CheckSpace() error { return t.checkSpace() }

// Violates implements record.DB.
func (t *tx) Violates(err error, index record.UniqueIndex) bool {
	return isUniqueViolation(err, index.Column)
}

// jsonList returns the texts as one JSON list.
func jsonList[T ~string](texts []T) string {
	b, _ := json.Marshal(texts) // a list of texts can always be encoded
	return string(b)
}
