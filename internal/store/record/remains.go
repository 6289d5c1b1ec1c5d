package record

import (
	"fmt"

	"fleet/internal/fleet"
)

const (
	putRemains = `INSERT INTO agent_remains (agent_uid, kept_at, size, lost, bundle) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (agent_uid) DO UPDATE SET (kept_at, size, lost, bundle) = (excluded.kept_at, excluded.size, excluded.lost, excluded.bundle)`
	selectRemains = `SELECT kept_at, size, lost, CASE WHEN CAST(? AS boolean) AND size > 0 THEN bundle END FROM agent_remains WHERE agent_uid = ?`
)

// Remains returns the remains of the agent without their bundle, see fleet.ReadTx.
func (t ReadTx) Remains(uid string) (*fleet.Remains, error) { return t.readRemains(uid, false) }

// RemainsWithBundle returns the remains of the agent, see fleet.ReadTx.
func (t ReadTx) RemainsWithBundle(uid string) (*fleet.Remains, error) {
	return t.readRemains(uid, true)
}

func (t ReadTx) readRemains(uid string, withBundle bool) (*fleet.Remains, error) {
	t.DB.Lock(LockAgent, uid)
	return QueryFirst(t.DB, func(row Scanner) (*fleet.Remains, error) {
		r := &fleet.Remains{}
		return r, row.Scan((*TimeColumn)(&r.KeptAt), &r.Size, &r.LostWork, &r.Bundle)
	}, selectRemains, withBundle, uid)
}

func (t Tx) putRemains(uid string, r *fleet.Remains) error {
	bundle := r.Bundle
	if len(bundle) == 0 {
		bundle = []byte{} // not NULL
	} else if err := t.DB.CheckSpace(); err != nil {
		return err
	}
	t.DB.Lock(LockAgent, uid)
	return t.DB.Exec(func(err error) error { return fmt.Errorf("keep what is left of agent %s: %w", uid, err) },
		putRemains, uid, r.KeptAt, len(bundle), r.LostWork, bundle)
}
