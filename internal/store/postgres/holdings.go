package postgres

import "fleet/internal/fleet"

const (
	ownedAgents = `SELECT toolset, count(*) FROM agents WHERE owner = $1 AND deleted_at IS NULL GROUP BY toolset`
	ownedTasks  = `SELECT count(*) FROM tasks WHERE owner = $1 AND ` + active
	ownedBytes  = `SELECT (SELECT coalesce(sum(bytes), 0) FROM stored WHERE owner = $1)::bigint
		+ (SELECT coalesce(sum(bytes), 0) FROM stored_changes WHERE owner = $1)::bigint`
)

func (t *readTx) Holdings(owner string) (h fleet.Holdings, err error) {
	t.lock(lockHoldings, owner)
	h.Agents = map[fleet.Toolset]int{}
	if err := t.each(func(row scanner) error {
		var toolset fleet.Toolset
		var n int
		err := row.Scan((*string)(&toolset), &n)
		h.Agents[toolset] = n
		return err
	}, ownedAgents, owner); err != nil {
		return h, t.failed(err)
	}
	if h.RunningTasks, err = first(t, scanInt, ownedTasks, owner); err != nil {
		return h, err
	}
	h.StoredBytes, err = first(t, scanInt64, ownedBytes, owner)
	return h, err
}
