package postgres

import (
	"fmt"
	"time"

	"fleet/internal/fleet"
)

const (
	putRemains = `INSERT INTO agent_remains (agent_uid, kept_at, size, lost, bundle) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (agent_uid) DO UPDATE SET (kept_at, size, lost, bundle) = ROW (excluded.kept_at, excluded.size, excluded.lost, excluded.bundle)`
	oldRemains = `DELETE FROM agent_remains WHERE agent_uid IN (SELECT agent_uid FROM agent_remains WHERE kept_at < $1 ORDER BY kept_at LIMIT $2) RETURNING agent_uid`
)

func (t *readTx) Remains(uid string, bundle bool) (*fleet.Remains, error) {
	t.lock(lockAgent, uid)
	return first(t, scanRemains, `SELECT kept_at, size, lost, CASE WHEN $1 AND size > 0 THEN bundle END FROM agent_remains WHERE agent_uid = $2`, bundle, uid)
}

func (t *tx) putRemains(uid string, r *fleet.Remains) error {
	bundle := r.Bundle
	if len(bundle) > 0 {
		if err := t.grow(); err != nil {
			return err
		}
	}
	if bundle == nil {
		bundle = []byte{}
	}
	t.lock(lockAgent, uid)
	if err := t.exec(putRemains, uid, r.KeptAt, len(bundle), r.Lost, bundle); err != nil {
		return t.failed(fmt.Errorf("keep what is left of agent %s: %w", uid, err))
	}
	return nil
}

func scanRemains(row scanner) (*fleet.Remains, error) {
	r := &fleet.Remains{}
	var kept *time.Time
	err := row.Scan(&kept, &r.Size, &r.Lost, &r.Bundle)
	r.KeptAt = timeOf(kept)
	return r, err
}
