package postgres

import (
	"fleet/internal/fleet"
	"fleet/internal/store/record"
)

// These count everything in one query, because each start of a task asks for it.
const (
	ownedThings   = agentsOfOwner + ` GROUP BY toolset UNION ALL ` + ownedTasks
	ownedOf       = agentsOfOwner + ` AND toolset = ANY($2) GROUP BY toolset UNION ALL ` + ownedTasks
	agentsOfOwner = `SELECT 'agents', toolset, count(*) FROM agents WHERE owner = $1 AND deleted_at IS NULL`
	ownedTasks    = `SELECT 'tasks', '', count(*) FROM tasks WHERE owner = $1 AND ` + record.Active + `
		UNION ALL SELECT 'bytes', '', ((SELECT coalesce(sum(bytes), 0) FROM stored WHERE owner = $1)
			+ (SELECT coalesce(sum(bytes), 0) FROM stored_changes WHERE owner = $1))::bigint`
)

const inProject = `SELECT (SELECT count(*) FROM agents WHERE project = $1 AND deleted_at IS NULL),
	(SELECT count(*) FROM tasks WHERE project = $1 AND ` + record.Active + `),
	((SELECT coalesce(sum(bytes), 0) FROM stored_projects WHERE project = $1)
		+ (SELECT coalesce(sum(bytes), 0) FROM stored_changes WHERE project = $1 AND project <> ''))::bigint`

func (t *readTx) InProject(project string) (h fleet.ProjectHoldings, err error) {
	t.lock(lockProject, project)
	err = t.each(func(row scanner) error { return row.Scan(&h.Agents, &h.RunningTasks, &h.StoredBytes) }, inProject, project)
	return h, t.failed(err)
}

func (t *readTx) Holdings(owner string) (fleet.Holdings, error) {
	return t.holdings(owner, ownedThings, owner)
}

func (t *readTx) HoldingsOf(owner string, toolsets ...fleet.Toolset) (fleet.Holdings, error) {
	if len(toolsets) == 0 {
		return t.holdings(owner, ownedTasks, owner)
	}
	return t.holdings(owner, ownedOf, owner, toolsets)
}

// holdings returns what the query finds of the owner.
func (t *readTx) holdings(owner, query string, args ...any) (h fleet.Holdings, err error) {
	t.lock(lockHoldings, owner)
	h.Agents = map[fleet.Toolset]int{}
	if err := t.each(func(row scanner) error {
		var what, toolset string
		var n int64
		if err := row.Scan(&what, &toolset, &n); err != nil {
			return err
		}
		switch what {
		case "agents":
			h.Agents[fleet.Toolset(toolset)] = int(n)
		case "tasks":
			h.RunningTasks = int(n)
		default:
			h.StoredBytes = n
		}
		return nil
	}, query, args...); err != nil {
		return h, t.failed(err)
	}
	return h, nil
}
