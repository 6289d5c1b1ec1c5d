package postgres

import (
	"errors"

	"fleet/internal/fleet"
	"fleet/internal/store/record"
)

const (
	// countOwned counts the agents, the running tasks and the stored bytes of an owner in one query, because each start of a task needs
	// these numbers.
	countOwned              = `SELECT 'agents', toolset, count(*) FROM agents WHERE owner = $1 AND deleted_at IS NULL GROUP BY toolset UNION ALL ` + countOwnedTasksAndBytes
	countOwnedInToolset     = `SELECT 'agents', $2::text, count(*) FROM agents WHERE owner = $1 AND toolset = $2 AND deleted_at IS NULL`
	countOwnedTasksAndBytes = `SELECT 'tasks', '', count(*) FROM tasks WHERE owner = $1 AND ` + record.ActiveCondition + ` AND ` + record.RunningCondition + `
		UNION ALL SELECT 'bytes', '', ((SELECT coalesce(sum(bytes), 0) FROM stored WHERE owner = $1)
			+ (SELECT coalesce(sum(bytes), 0) FROM stored_changes WHERE owner = $1))::bigint`
)

const countInProject = `SELECT (SELECT count(*) FROM agents WHERE project = $1 AND deleted_at IS NULL),
	(SELECT count(*) FROM tasks WHERE project = $1 AND ` + record.ActiveCondition + ` AND ` + record.RunningCondition + `),
	((SELECT coalesce(sum(bytes), 0) FROM stored_projects WHERE project = $1)
		+ (SELECT coalesce(sum(bytes), 0) FROM stored_changes WHERE project = $1 AND project <> ''))::bigint`

func (t *baseTx) ProjectHoldings(project string) (h fleet.ProjectHoldings, err error) {
	t.lock(record.LockProject, project)
	err = t.forEachRow(func(row scanner) error { return row.Scan(&h.Agents, &h.RunningTasks, &h.StoredBytes) }, countInProject, project)
	return h, t.fail(err)
}

// errNearLimit means that a number is too near its limit to be counted while other transactions may add to it.
var errNearLimit = errors.New("the number is near its limit: count it alone")

// countLocked calls count, which sets the owner's numbers, while the transaction holds a lock. Near a limit, the lock is exclusive,
// so that no other transaction can add something before the commit. Otherwise the lock is shared, so that transactions do not wait
// for each other's commits. isFar reports whether the numbers are so far from the limits that even the largest possible number of
// concurrent transactions cannot reach them. It is also called before count, when the numbers are still 0.
func (t *baseTx) countLocked(owner string, isFar func() bool, count func() error) error {
	isExclusive, isHeld := t.locks.held[lockKey(record.LockOwner, owner)]
	if t.isView || t.nearLimit || isExclusive || !isHeld && !isFar() {
		t.lock(record.LockOwner, owner)
		return count()
	}
	t.lockShared(record.LockOwner, owner)
	err := count()
	if err == nil && !isFar() {
		t.nearLimit = true
		return t.fail(errNearLimit) // repeat with the exclusive lock: two transactions that share it would deadlock if both wanted it
	}
	return err
}

// maxSharedBytes is how many stored bytes a transaction may add while it shares the lock: those of a new agent and of its task.
const maxSharedBytes = 2 * fleet.MaxText

func (t *baseTx) Holdings(owner string, l fleet.Limits, scope fleet.HoldingsScope) (h fleet.Holdings, err error) {
	query, args := countOwned, []any{owner}
	switch {
	case scope.Toolset != nil:
		query, args = countOwnedInToolset, append(args, string(*scope.Toolset))
	case scope.WithoutAgents:
		query = countOwnedTasksAndBytes
	}
	h.Agents = map[fleet.Toolset]int{}
	isFar := func() bool {
		return !scope.Exclusive && (l.Agents == 0 || h.AllAgents() <= l.Agents-t.maxTransactions) &&
			(l.RunningTasks == 0 || h.RunningTasks <= l.RunningTasks-t.maxTransactions) &&
			(l.StoredBytes == 0 || scope.Bytes <= maxSharedBytes && h.StoredBytes <= l.StoredBytes-int64(t.maxTransactions)*maxSharedBytes)
	}
	err = t.countLocked(owner, isFar, func() error {
		return t.forEachRow(func(row scanner) error {
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
		}, query, args...)
	})
	return h, t.fail(err)
}
