package postgres

import (
	"strings"

	"fleet/internal/fleet"
	"fleet/internal/store/record"
)

const (
	selectTask = record.SelectTasks + `WHERE id = $1`
	// indexedRunningCondition selects the same tasks as record.RunningCondition, in the form of the index tasks_current, so that Postgres
	// uses this index. With record.RunningCondition, Postgres could choose another index if it plans the query while few
	// tasks run. It would then read the running tasks of all agents.
	indexedRunningCondition = `CASE status WHEN 'running' THEN true ELSE false END`
	selectRunningTask       = record.SelectTasks + `WHERE agent_uid = $1 AND ` + indexedRunningCondition
	selectRunningTasks      = record.SelectTasks + `WHERE agent_uid = ANY($1) AND ` + indexedRunningCondition
	countAgentTasks         = `SELECT count(*) FROM tasks WHERE agent_uid = $1`
	selectAgentTasks        = `SELECT ` + record.TaskReadColumns + `, NULL::text FROM tasks
		WHERE agent_uid = $1 ORDER BY created_at DESC, n DESC LIMIT $2 OFFSET $3`
	selectSessionTasks = `SELECT ` + record.TaskReadColumns + `, rest FROM (
			SELECT * FROM tasks WHERE session_id <> '' AND session_id = $1 ORDER BY created_at DESC, n DESC LIMIT $2
		) AS newest LEFT JOIN task_descriptions ON task_id = id ORDER BY created_at, n`
	selectLastTasks       = record.SelectTasks + `WHERE n IN (SELECT max(n) FROM tasks WHERE agent_uid = ANY($1) GROUP BY agent_uid)`
	selectDispatchedTasks = record.SelectTasks + `WHERE agent_uid = $1` + record.DispatchedTasks + `$2`

	putRest = `INSERT INTO task_descriptions AS d (task_id, rest) VALUES ($1, $2)
		ON CONFLICT (task_id) DO UPDATE SET rest = excluded.rest WHERE d.rest <> excluded.rest`
)

var (
	insertTask = numberPlaceholders(`INSERT INTO tasks (` + record.TaskColumns + `, search, id, revision, name_key, project, toolset)
		SELECT ` + record.Placeholders(record.TaskColumns) + `, ?, ?, 1, coalesce(a.name_key, ''), coalesce(a.project, ?), coalesce(a.toolset, '') FROM (SELECT) AS one LEFT JOIN agents AS a ON a.uid = ?`)
	updateTaskRow = numberPlaceholders(`UPDATE tasks SET (` + record.TaskColumns + `) = ROW (` + record.Placeholders(record.TaskColumns) + `), search = ?, revision = revision + 1
		WHERE id = ? RETURNING revision`)
	updateTask = failIfNoRow("", updateTaskRow)
	// updateShortTask is updateTask for a task whose whole description is in its row. It removes the rest of a former description.
	updateShortTask = failIfNoRow(`dropped AS (DELETE FROM task_descriptions WHERE task_id = `+placeholder(strings.Count(record.TaskColumns, ",")+3)+`), `, updateTaskRow)
)

func (t *baseTx) Task(id string) (*fleet.Task, error) {
	return fleet.First(record.ReadLocked(t, record.LockAgent, record.TaskLockName, func() ([]*fleet.Task, error) {
		return queryAll(t, record.ScanTask, selectTask, id)
	}))
}

func (t *baseTx) RunningTask(agentUID string) (*fleet.Task, error) {
	t.lock(record.LockAgent, agentUID)
	return queryFirst(t, record.ScanTask, selectRunningTask, agentUID)
}

func (t *baseTx) Tasks(agentUID string, limit, offset int) ([]*fleet.Task, int, error) {
	t.lock(record.LockAgent, agentUID)
	total, err := queryFirst(t, record.ScanInt, countAgentTasks, agentUID)
	if err != nil || limit <= 0 || offset >= total {
		return nil, total, err
	}
	tasks, err := queryAll(t, record.ScanTask, selectAgentTasks, agentUID, limit, max(0, offset))
	return tasks, total, err
}

func (t *baseTx) SessionTasks(sessionID string, limit int) ([]*fleet.Task, error) {
	if limit <= 0 {
		return nil, t.err
	}
	t.lock(record.LockSession, sessionID)
	return record.ReadLocked(t, record.LockAgent, record.TaskLockName, func() ([]*fleet.Task, error) {
		return queryAll(t, record.ScanTask, selectSessionTasks, sessionID, limit)
	})
}

func (t *baseTx) LastTasks(uids []string) ([]*fleet.Task, error) {
	if len(uids) == 0 {
		return nil, t.err
	}
	t.lock(record.LockAgent, uids...)
	return queryAll(t, record.ScanTask, selectLastTasks, uids)
}

func (t *baseTx) DispatchedTasks(uid string, limit int) ([]*fleet.Task, error) {
	t.lock(record.LockAgent, uid)
	return queryAll(t, record.ScanTask, selectDispatchedTasks, uid, max(0, limit))
}

// InsertTask implements record.DB.
func (t *tx) InsertTask(task *fleet.Task) error {
	if err := t.checkSpace(); err != nil {
		return err
	}
	t.lock(record.LockAgent, record.TaskLockName(task))
	if task.SessionID != "" {
		t.lock(record.LockSession, task.SessionID)
	}
	t.lockShared(record.LockOwner, task.Owner)
	explain := func(err error) error { return taskError("add", task, err) }
	err := t.execLater(explain, insertTask, append(record.TaskArgs(task), searchText(task), task.ID, task.Project, task.AgentUID)...)
	if rest := record.DescriptionRest(task.Description); err == nil && rest != "" {
		err = t.execLater(explain, putRest, task.ID, rest)
	}
	task.Revision = 1
	return err
}

// UpdateTask implements record.DB.
func (t *tx) UpdateTask(task *fleet.Task) error {
	t.lock(record.LockAgent, record.TaskLockName(task))
	rest := record.DescriptionRest(task.Description)
	query := updateShortTask
	if rest != "" {
		query = updateTask
	}
	explain := func(err error) error { return taskError("write", task, err) }
	err := t.reviseLater(&task.Revision, explain, query, append(record.TaskArgs(task), searchText(task), task.ID)...)
	if err == nil && rest != "" {
		err = t.execLater(explain, putRest, task.ID, rest)
	}
	return err
}

func taskError(verb string, task *fleet.Task, err error) error {
	return record.TaskError(verb, task, err, isUniqueViolation(err, "tasks_active"), isRefused(err))
}

// searchText returns the text that searches look at, in lower case: the beginning of the task's description, and its summary.
// Go converts it to lower case, so that the result does not depend on the locale of the database.
func searchText(t *fleet.Task) string {
	return strings.ToLower(record.DescriptionHead(t.Description) + "\n" + t.Summary)
}
