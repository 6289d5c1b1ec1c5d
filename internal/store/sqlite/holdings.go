package sqlite

import (
	"fleet/internal/fleet"
	"fleet/internal/store/record"
)

const (
	selectOwnedAgents    = `SELECT toolset, agents FROM owned WHERE owner = ? AND agents > 0`
	selectOwnedInToolset = `SELECT agents FROM owned WHERE owner = ? AND toolset = ?`
	countOwnedTasks      = `SELECT count(*) FROM tasks WHERE owner = ? AND ` + record.ActiveCondition + ` AND ` + record.RunningCondition
	countProjectAgents   = `SELECT count(*) FROM agents WHERE project = ? AND deleted_at IS NULL`
	countProjectTasks    = `SELECT count(*) FROM tasks WHERE project = ? AND ` + record.ActiveCondition + ` AND ` + record.RunningCondition
	selectProjectBytes   = `SELECT bytes FROM stored_projects WHERE project = ?`
	selectOwnedBytes     = `SELECT bytes FROM stored WHERE owner = ?`
)

func (t *baseTx) ProjectHoldings(project string) (h fleet.ProjectHoldings, err error) {
	if h.Agents, err = record.QueryFirst(t, record.ScanInt, countProjectAgents, project); err != nil {
		return h, err
	}
	if h.RunningTasks, err = record.QueryFirst(t, record.ScanInt, countProjectTasks, project); err != nil {
		return h, err
	}
	h.StoredBytes, err = record.QueryFirst(t, record.ScanInt64, selectProjectBytes, project)
	return h, err
}

func (t *baseTx) Holdings(owner string, _ fleet.Limits, scope fleet.HoldingsScope) (h fleet.Holdings, err error) {
	h.Agents = map[fleet.Toolset]int{}
	if scope.Toolset != nil {
		h.Agents[*scope.Toolset], err = record.QueryFirst(t, record.ScanInt, selectOwnedInToolset, owner, string(*scope.Toolset))
		return h, err
	}
	if h.RunningTasks, err = record.QueryFirst(t, record.ScanInt, countOwnedTasks, owner); err != nil {
		return h, err
	}
	if h.StoredBytes, err = record.QueryFirst(t, record.ScanInt64, selectOwnedBytes, owner); err != nil || scope.WithoutAgents {
		return h, err
	}
	return h, t.Query(record.ScanInto(h.Agents), selectOwnedAgents, owner)
}
