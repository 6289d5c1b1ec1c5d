package postgres

import (
	"errors"

	"fleet/internal/fleet"
	"fleet/internal/store/record"
)

// One query counts everything, because each start of a task asks for it.
const (
	ownedThings = `SELECT 'agents', toolset, count(*) FROM agents WHERE owner = $1 AND deleted_at IS NULL GROUP BY toolset UNION ALL ` + ownedTasks
	ownedOf     = `SELECT count(*) FROM agents WHERE owner = $1 AND toolset = $2 AND deleted_at IS NULL`
	ownedTasks  = `SELECT 'tasks', '', count(*) FROM tasks WHERE owner = $1 AND ` + record.Active + `
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
	return t.holdings(owner, ownedThings)
}

func (t *readTx) TaskHoldings(owner string) (fleet.Holdings, error) {
	return t.holdings(owner, ownedTasks)
}

// errNear means that a number is too near its limit to be counted while others add to it.
var errNear = errors.New("the number is near its limit: count it alone")

// OwnAgents keeps out others who add agents of the owner, but only near the limit: otherwise they would all wait for each other's commits. Far
// from it, all transactions that the server can have at the same time do not reach it together.
func (t *readTx) OwnAgents(owner string, toolset fleet.Toolset, most int) (int, error) {
	if t.view || t.near || most <= t.others {
		t.lock(lockHoldings, owner)
		return first(t, scanInt, ownedOf, owner, toolset)
	}
	t.share(lockHoldings, owner)
	n, err := first(t, scanInt, ownedOf, owner, toolset)
	if err == nil && n > most-t.others {
		t.near = true
		return 0, t.failed(errNear) // and begin again with the lock: two that have shared it would wait for each other
	}
	return n, err
}

// holdings returns what the query finds of the owner.
func (t *readTx) holdings(owner, query string) (h fleet.Holdings, err error) {
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
	}, query, owner); err != nil {
		return h, t.failed(err)
	}
	return h, nil
}
