package sqlite

import (
	"fleet/internal/fleet"
	"fleet/internal/store/record"
)

const (
	ownedAgents = `SELECT toolset, agents FROM owned WHERE owner = ? AND agents > 0`
	ownedOf     = `SELECT agents FROM owned WHERE owner = ? AND toolset = ?`
	ownedTasks  = `SELECT count(*) FROM tasks WHERE owner = ? AND ` + record.ActiveCondition + ` AND ` + record.RunningCondition
	agentsIn    = `SELECT count(*) FROM agents WHERE project = ? AND deleted_at IS NULL`
	tasksIn     = `SELECT count(*) FROM tasks WHERE project = ? AND ` + record.ActiveCondition + ` AND ` + record.RunningCondition
	bytesIn     = `SELECT bytes FROM stored_projects WHERE project = ?`
	ownedBytes  = `SELECT bytes FROM stored WHERE owner = ?`
)

func (t *readTx) ProjectHoldings(project string) (h fleet.ProjectHoldings, err error) {
	if h.Agents, err = queryFirst(t, scanInt, agentsIn, project); err != nil {
		return h, err
	}
	if h.RunningTasks, err = queryFirst(t, scanInt, tasksIn, project); err != nil {
		return h, err
	}
	h.StoredBytes, err = queryFirst(t, scanInt64, bytesIn, project)
	return h, err
}

func (t *readTx) Holdings(owner string, _ fleet.Limits, c fleet.HoldingsScope) (h fleet.Holdings, err error) {
	h.Agents = map[fleet.Toolset]int{}
	if c.Toolset != nil {
		h.Agents[*c.Toolset], err = queryFirst(t, scanInt, ownedOf, owner, string(*c.Toolset))
		return h, err
	}
	if h.RunningTasks, err = queryFirst(t, scanInt, ownedTasks, owner); err != nil {
		return h, err
	}
	if h.StoredBytes, err = queryFirst(t, scanInt64, ownedBytes, owner); err != nil || c.NewTask {
		return h, err
	}
	err = t.each(func(row scanner) error {
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
