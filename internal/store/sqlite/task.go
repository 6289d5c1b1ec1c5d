package sqlite

import (
	"fleet/internal/fleet"
	"fleet/internal/store/record"
)

const (
	selectAgentTasks = `SELECT ` + record.TaskReadColumns + `, NULL FROM tasks
		WHERE agent_uid = ? ORDER BY created_at DESC, n DESC LIMIT ? OFFSET ?`
	selectSessionTasks = `SELECT ` + record.TaskReadColumns + `, rest FROM (
			SELECT * FROM tasks WHERE session_id <> '' AND session_id = ? ORDER BY created_at DESC, n DESC LIMIT ?
		) LEFT JOIN task_descriptions ON task_id = id ORDER BY created_at, n`
	selectLastTasks       = record.SelectTasks + `WHERE n IN (SELECT max(n) FROM tasks WHERE agent_uid ` + inList + ` GROUP BY agent_uid)`
	selectDispatchedTasks = record.SelectTasks + `WHERE agent_uid = ?` + record.DispatchedTasks + `?`

	putRest = `INSERT INTO task_descriptions (task_id, rest) VALUES (?, ?)
		ON CONFLICT (task_id) DO UPDATE SET rest = excluded.rest WHERE rest <> excluded.rest`
	deleteRest = `DELETE FROM task_descriptions WHERE task_id = ?`
)

var (
	insertTask = `INSERT INTO tasks (` + record.TaskColumns + `, id, revision, name_key, project, toolset) VALUES (` + record.Placeholders(record.TaskColumns) + `, ?, 1,
		coalesce((SELECT name_key FROM agents WHERE uid = ?), ''), coalesce((SELECT project FROM agents WHERE uid = ?), ?), coalesce((SELECT toolset FROM agents WHERE uid = ?), ''))`
	updateTask = `UPDATE tasks SET (` + record.TaskColumns + `) = (` + record.Placeholders(record.TaskColumns) + `), revision = revision + 1
		WHERE id = ? RETURNING revision`
)

func (t *baseTx) Task(id string) (*fleet.Task, error) {
	return record.QueryFirst(t, record.ScanTask, record.SelectTasks+`WHERE id = ?`, id)
}

func (t *baseTx) RunningTask(agentUID string) (*fleet.Task, error) {
	return record.QueryFirst(t, record.ScanTask, record.SelectTasks+`WHERE agent_uid = ? AND `+record.RunningCondition, agentUID)
}

func (t *baseTx) Tasks(agentUID string, limit, offset int) ([]*fleet.Task, int, error) {
	total, err := record.QueryFirst(t, record.ScanInt, `SELECT count(*) FROM tasks WHERE agent_uid = ?`, agentUID)
	if err != nil || limit <= 0 || offset >= total {
		return nil, total, err
	}
	tasks, err := record.QueryAll(t, record.ScanTask, selectAgentTasks, agentUID, limit, max(0, offset))
	return tasks, total, err
}

func (t *baseTx) SessionTasks(sessionID string, limit int) ([]*fleet.Task, error) {
	if limit <= 0 {
		return nil, t.err
	}
	return record.QueryAll(t, record.ScanTask, selectSessionTasks, sessionID, limit)
}

func (t *baseTx) LastTasks(uids []string) ([]*fleet.Task, error) {
	if len(uids) == 0 {
		return nil, t.err
	}
	return record.QueryAll(t, record.ScanTask, selectLastTasks, jsonList(uids))
}

func (t *baseTx) DispatchedTasks(uid string, limit int) ([]*fleet.Task, error) {
	return record.QueryAll(t, record.ScanTask, selectDispatchedTasks, uid, max(0, limit))
}

// InsertTask implements record.DB.
func (t *tx) InsertTask(task *fleet.Task) error {
	if err := t.checkSpace(); err != nil {
		return err
	}
	if _, err := t.exec(insertTask, append(record.TaskArgs(task), task.ID, task.AgentUID, task.AgentUID, task.Project, task.AgentUID)...); err != nil {
		return t.fail(taskError("add", task, err))
	}
	if rest := record.DescriptionRest(task.Description); rest != "" {
		if _, err := t.exec(putRest, task.ID, rest); err != nil {
			return t.fail(taskError("add", task, err))
		}
	}
	task.Revision = 1
	return nil
}

// UpdateTask implements record.DB.
func (t *tx) UpdateTask(task *fleet.Task) error {
	revision, err := t.revise(updateTask, append(record.TaskArgs(task), task.ID)...)
	if err == nil {
		if rest := record.DescriptionRest(task.Description); rest != "" {
			_, err = t.exec(putRest, task.ID, rest)
		} else {
			_, err = t.exec(deleteRest, task.ID)
		}
	}
	if err != nil {
		return t.fail(taskError("write", task, err))
	}
	task.Revision = revision
	return nil
}

func taskError(verb string, task *fleet.Task, err error) error {
	return record.TaskError(verb, task, err, isUniqueViolation(err, "tasks.agent_uid"), isEndedTask(err))
}
