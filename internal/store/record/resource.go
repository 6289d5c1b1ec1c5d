package record

import (
	"encoding/json"
	"fmt"

	"fleet/internal/fleet"
)

const (
	selectResources = `SELECT kind, name, body, revision FROM resources WHERE kind = ?`
	putResource     = `INSERT INTO resources AS r (kind, name, body, revision) VALUES (?, ?, ?, 1)
		ON CONFLICT (kind, name) DO UPDATE SET body = excluded.body, revision = r.revision + 1 RETURNING revision`
	deleteResource = `DELETE FROM resources WHERE kind = ? AND name = ?`
)

// Resources returns the matching resources, see fleet.ReadTx.
func (t ReadTx) Resources(f fleet.ResourceFilter) ([]*fleet.Resource, error) {
	if f.Name != "" {
		t.DB.Lock(lockResource, joinKey(string(f.Kind), f.Name))
		return QueryAll(t.DB, scanResource, selectResources+` AND name = ?`, string(f.Kind), f.Name)
	}
	return ReadLocked(t.DB, lockResource, func(r *fleet.Resource) string { return joinKey(string(r.Kind), r.Name) }, func() ([]*fleet.Resource, error) {
		return QueryAll(t.DB, scanResource, selectResources+` ORDER BY name`, string(f.Kind))
	})
}

func (t Tx) putResource(r *fleet.Resource) error {
	t.DB.Lock(lockResource, joinKey(string(r.Kind), r.Name))
	return t.DB.Revise(&r.Revision, func(err error) error { return resourceError("write", r, err) }, putResource, string(r.Kind), r.Name, new(string(r.Body)))
}

func (t Tx) deleteResource(r *fleet.Resource) error {
	t.DB.Lock(lockResource, joinKey(string(r.Kind), r.Name))
	return t.DB.Exec(func(err error) error { return resourceError("delete", r, err) }, deleteResource, string(r.Kind), r.Name)
}

func resourceError(verb string, r *fleet.Resource, err error) error {
	return fmt.Errorf("%s the %s %q: %w", verb, r.Kind, r.Name, err)
}

func scanResource(row Scanner) (*fleet.Resource, error) {
	var r fleet.Resource
	var body string
	err := row.Scan((*string)(&r.Kind), &r.Name, &body, &r.Revision)
	r.Body = json.RawMessage(body)
	return &r, err
}
