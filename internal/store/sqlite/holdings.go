package sqlite

import (
	"fleet/internal/fleet"
	"fleet/internal/store/record"
)

const (
	ownedAgents    = `SELECT toolset, agents FROM owned WHERE owner = ? AND agents > 0`
	ownedInToolset = `SELECT agents FROM owned WHERE owner = ? AND toolset = ?`
	ownedTasks     = `SELECT count(*) FROM tasks WHERE owner = ? AND ` + record.ActiveCondition + ` AND ` + record.RunningCondition
	projectAgents  = `SELECT count(*) FROM agents WHERE project = ? AND deleted_at IS NULL`
	projectTasks   = `SELECT count(*) FROM tasks WHERE project = ? AND ` + record.ActiveCondition + ` AND ` + record.RunningCondition
	projectBytes   = `SELECT bytes FROM stored_projects WHERE project = ?`
	ownedBytes     = `SELECT bytes FROM stored WHERE owner = ?`
)

func (t *readTx) ProjectHoldings(project string) (h fleet.ProjectHoldings, err error) {
	if h.Agents, err = record.QueryFirst(t, record.ScanInt, projectAgents, project); err != nil {
		return h, err
	}
	if h.RunningTasks, err = record.QueryFirst(t, record.ScanInt, projectTasks, project); err != nil {
		return h, err
	}
	h.StoredBytes, err = record.QueryFirst(t, record.ScanInt64, projectBytes, project)
	return h, err
}

func (t *readTx) Holdings(owner string, _ fleet.Limits, c fleet.HoldingsScope) (h fleet.Holdings, err error) {
	h.Agents = map[fleet.Toolset]int{}
	if c.Toolset != nil {
		h.Agents[*c.Toolset], err = record.QueryFirst(t, record.ScanInt, ownedInToolset, owner, string(*c.Toolset))
		return h, err
	}
	if h.RunningTasks, err = record.QueryFirst(t, record.ScanInt, ownedTasks, owner); err != nil {
		return h, err
	}
	if h.StoredBytes, err = record.QueryFirst(t, record.ScanInt64, ownedBytes, owner); err != nil || c.NewTask {
		return h, err
	}
	err = t.forEachRow(func(row scanner) error {
		var toolset fleet.Toolset
		var n int
		err := row.Scan((*string)(&toolset), &n)
		h.Agents[toolset] = n
		return err
	}, ownedAgents, owner)
	if err != nil {
		return h, t.fail(err)
	}
	return h, nil
}
