package sqlite

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"fleet/internal/fleet"
)

// maxHead limits the part of a description that is stored in its task's row and shown in lists, in bytes.
const maxHead = 4 << 10

const (
	taskColumns = `traceparent, agent_uid, agent_name, owner, source, status, reason, timeout, created_at, started_at, ended_at,
		dispatched, cursor, output_size, stop_asked, stop_reason, summary, payload_size, exit_code, cost_usd, turns, session_id,
		model, input_tokens, output_tokens, tool_calls, self_started, reported, payload_gap_offset, payload_gap_size, waiting, stalled_at, last_step, terminal, conversation_lost, try, checks_failed, description`
	selectTasks = `SELECT id, ` + taskColumns + `, payload_removed, revision, rest FROM tasks LEFT JOIN task_descriptions ON task_id = id `
	listTasks   = `SELECT id, ` + taskColumns + `, payload_removed, revision, NULL FROM tasks
		WHERE agent_uid = ? ORDER BY created_at DESC, n DESC LIMIT ? OFFSET ?`
	sessionTasks = `SELECT id, ` + taskColumns + `, payload_removed, revision, rest FROM (
			SELECT * FROM tasks WHERE session_id <> '' AND session_id = ? ORDER BY created_at DESC, n DESC LIMIT ?
		) LEFT JOIN task_descriptions ON task_id = id ORDER BY created_at, n`
	lastTasks = selectTasks + `WHERE n IN (SELECT max(n) FROM tasks WHERE agent_uid ` + uidsIn + ` GROUP BY agent_uid)`
	// active repeats the condition of the index tasks_active literally, because SQLite would not use the index
	// otherwise.
	active = `status IN ('pending', 'running')`

	putRest = `INSERT INTO task_descriptions (task_id, rest) VALUES (?, ?)
		ON CONFLICT (task_id) DO UPDATE SET rest = excluded.rest WHERE rest <> excluded.rest`
	dropRest = `DELETE FROM task_descriptions WHERE task_id = ?`
)

var (
	insertTask = `INSERT INTO tasks (` + taskColumns + `, id, revision, name_key, project, toolset) VALUES (` + marks(taskColumns) + `, ?, 1,
		(SELECT name_key FROM agents WHERE uid = ?), (SELECT project FROM agents WHERE uid = ?), (SELECT toolset FROM agents WHERE uid = ?))`
	updateTask = `UPDATE tasks SET (` + taskColumns + `) = (` + marks(taskColumns) + `), revision = revision + 1
		WHERE id = ? RETURNING revision`
)

func (t *readTx) Task(id string) (*fleet.Task, error) {
	return first(t, scanTask, selectTasks+`WHERE id = ?`, id)
}

func (t *readTx) ActiveTask(agentUID string) (*fleet.Task, error) {
	return first(t, scanTask, selectTasks+`WHERE agent_uid = ? AND `+active, agentUID)
}

func (t *readTx) Tasks(agentUID string, limit, offset int) ([]*fleet.Task, int, error) {
	total, err := first(t, scanInt, `SELECT count(*) FROM tasks WHERE agent_uid = ?`, agentUID)
	if err != nil || limit <= 0 || offset >= total {
		return nil, total, err
	}
	tasks, err := all(t, scanTask, listTasks, agentUID, limit, max(0, offset))
	return tasks, total, err
}

func (t *readTx) SessionTasks(sessionID string, limit int) ([]*fleet.Task, error) {
	if limit <= 0 {
		return nil, t.err
	}
	return all(t, scanTask, sessionTasks, sessionID, limit)
}

func (t *readTx) LastTasks(uids []string) ([]*fleet.Task, error) {
	if len(uids) == 0 {
		return nil, t.err
	}
	list, err := json.Marshal(uids)
	if err != nil {
		return nil, t.failed(err)
	}
	return all(t, scanTask, lastTasks, string(list))
}

func (t *tx) InsertTask(task *fleet.Task) error {
	if err := t.grow(); err != nil {
		return err
	}
	if _, err := t.exec(insertTask, append(taskArgs(task), task.ID, task.AgentUID, task.AgentUID, task.AgentUID)...); err != nil {
		return t.failed(taskError("add", task, err))
	}
	if rest := task.Description[len(head(task.Description)):]; rest != "" {
		if _, err := t.exec(putRest, task.ID, rest); err != nil {
			return t.failed(taskError("add", task, err))
		}
	}
	task.Revision = 1
	return nil
}

func (t *tx) UpdateTask(task *fleet.Task) error {
	revision, err := t.revise(updateTask, append(taskArgs(task), task.ID)...)
	if err == nil {
		if rest := task.Description[len(head(task.Description)):]; rest != "" {
			_, err = t.exec(putRest, task.ID, rest)
		} else {
			_, err = t.exec(dropRest, task.ID)
		}
	}
	if err != nil {
		return t.failed(taskError("write", task, err))
	}
	task.Revision = revision
	return nil
}

func taskError(act string, task *fleet.Task, err error) error {
	switch {
	case taken(err, "tasks.agent_uid"):
		return fleet.Errorf(fleet.ReasonAgentBusy,
			"agent %q already has a running task: wait for it, or stop it first", task.AgentName).WithCause(err)
	case ended(err):
		err = errors.New("it has ended, and an ended task is never changed")
	}
	return fmt.Errorf("%s task %s: %w", act, task.ID, err)
}

// head returns the part of the description for lists, cut at a character boundary.
func head(description string) string {
	if len(description) <= maxHead {
		return description
	}
	for n := maxHead; n > maxHead-utf8.UTFMax; n-- {
		if utf8.RuneStart(description[n]) {
			return description[:n]
		}
	}
	return description[:maxHead] // it is not valid UTF-8
}

func taskArgs(t *fleet.Task) []any {
	var exit sql.NullInt64
	if t.ExitCode != nil {
		exit = sql.NullInt64{Int64: int64(*t.ExitCode), Valid: true}
	}
	return []any{
		t.Trace, t.AgentUID, t.AgentName, t.Owner, string(t.Source), string(t.Status), t.Reason, int64(t.Timeout),
		micros(t.CreatedAt), maybeMicros(t.StartedAt), maybeMicros(t.EndedAt), maybeMicros(t.Dispatched), t.Cursor,
		t.OutputSize, maybeMicros(t.StopAsked), t.StopReason, t.Summary, t.PayloadSize, exit, t.CostUSD, t.Turns,
		t.SessionID, t.Usage.Model, t.Usage.InputTokens, t.Usage.OutputTokens, t.Usage.ToolCalls, t.SelfStarted, t.Reported, t.PayloadGap.Offset, t.PayloadGap.Size, t.Waiting, maybeMicros(t.StalledAt), t.LastStep, t.Terminal, t.ConversationLost, t.Try, t.ChecksFailed, head(t.Description),
	}
}

func scanTask(row scanner) (*fleet.Task, error) {
	var (
		t                                                      fleet.Task
		rest                                                   sql.NullString
		exit                                                   sql.NullInt64
		timeout                                                int64
		created, started, ended, dispatched, stopping, stalled sql.NullInt64
	)
	err := row.Scan(&t.ID, &t.Trace, &t.AgentUID, &t.AgentName, &t.Owner, (*string)(&t.Source), (*string)(&t.Status), &t.Reason, &timeout,
		&created, &started, &ended, &dispatched, &t.Cursor, &t.OutputSize, &stopping, &t.StopReason, &t.Summary, &t.PayloadSize,
		&exit, &t.CostUSD, &t.Turns, &t.SessionID, &t.Usage.Model, &t.Usage.InputTokens, &t.Usage.OutputTokens, &t.Usage.ToolCalls,
		&t.SelfStarted, &t.Reported, &t.PayloadGap.Offset, &t.PayloadGap.Size, &t.Waiting, &stalled, &t.LastStep, &t.Terminal, &t.ConversationLost, &t.Try, &t.ChecksFailed, &t.Description, &t.PayloadRemoved, &t.Revision, &rest)
	if err != nil {
		return nil, err
	}
	t.Timeout = time.Duration(timeout)
	t.CreatedAt, t.StartedAt, t.EndedAt = timeOf(created), timeOf(started), timeOf(ended)
	t.Dispatched, t.StopAsked = timeOf(dispatched), timeOf(stopping)
	t.StalledAt = timeOf(stalled)
	t.Description += rest.String
	if exit.Valid {
		t.ExitCode = new(int(exit.Int64))
	}
	return &t, nil
}

func scanInt(row scanner) (n int, err error) { return n, row.Scan(&n) }
