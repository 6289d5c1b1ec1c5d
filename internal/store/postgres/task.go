package postgres

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"fleet/internal/fleet"
)

// maxHead is how much of a description is kept in its task's row, and so shown in lists, in bytes.
const maxHead = 4 << 10

const (
	taskColumns = `traceparent, agent_uid, agent_name, owner, source, status, reason, timeout, created_at, started_at, ended_at,
		dispatched, cursor, output_size, stop_asked, stop_reason, summary, payload_size, exit_code, cost_usd, turns, session_id,
		model, input_tokens, output_tokens, tool_calls, self_started, reported, payload_gap_offset, payload_gap_size, waiting, stalled_at, last_step, terminal, conversation_lost, try, checks_failed, description`
	selectTasks = `SELECT id, ` + taskColumns + `, payload_removed, revision, rest FROM tasks LEFT JOIN task_descriptions ON task_id = id `
	oneTask     = selectTasks + `WHERE id = $1`
	activeTask  = selectTasks + `WHERE agent_uid = $1 AND ` + active
	countOwn    = `SELECT count(*) FROM tasks WHERE agent_uid = $1`
	listTasks   = `SELECT id, ` + taskColumns + `, payload_removed, revision, NULL::text FROM tasks
		WHERE agent_uid = $1 ORDER BY created_at DESC, n DESC LIMIT $2 OFFSET $3`
	sessionTasks = `SELECT id, ` + taskColumns + `, payload_removed, revision, rest FROM (
			SELECT * FROM tasks WHERE session_id <> '' AND session_id = $1 ORDER BY created_at DESC, n DESC LIMIT $2
		) AS newest LEFT JOIN task_descriptions ON task_id = id ORDER BY created_at, n`
	lastTasks = selectTasks + `WHERE n IN (SELECT max(n) FROM tasks WHERE agent_uid = ANY($1) GROUP BY agent_uid)`
	// active repeats the condition of the index tasks_active, so that the index is used.
	active = `status IN ('pending', 'running')`

	putRest = `INSERT INTO task_descriptions AS d (task_id, rest) VALUES ($1, $2)
		ON CONFLICT (task_id) DO UPDATE SET rest = excluded.rest WHERE d.rest <> excluded.rest`
	dropRest = `DELETE FROM task_descriptions WHERE task_id = $1`
)

var (
	insertTask = numbered(`INSERT INTO tasks (` + taskColumns + `, search, id, revision, name_key, project, toolset)
		SELECT ` + marks(taskColumns) + `, ?, ?, 1, a.name_key, a.project, a.toolset FROM (SELECT) AS one LEFT JOIN agents AS a ON a.uid = ?`)
	updateTask = numbered(`UPDATE tasks SET (` + taskColumns + `) = ROW (` + marks(taskColumns) + `), search = ?, revision = revision + 1
		WHERE id = ? RETURNING revision`)
	// updateShort is for a task whose description is in its row.
	updateShort = `WITH dropped AS (DELETE FROM task_descriptions WHERE task_id = ` + mark(strings.Count(taskColumns, ",")+3) + `) ` + updateTask
)

func (t *readTx) Task(id string) (*fleet.Task, error) {
	return t.task(oneTask, id)
}

// task returns the first task of the query's result.
func (t *readTx) task(query string, args ...any) (*fleet.Task, error) {
	got, err := settled(t, lockAgent, agentOf, func() ([]*fleet.Task, error) { return all(t, scanTask, query, args...) })
	if err != nil || len(got) == 0 {
		return nil, err
	}
	return got[0], nil
}

func agentOf(t *fleet.Task) []string { return []string{t.AgentUID} }

func (t *readTx) ActiveTask(agentUID string) (*fleet.Task, error) {
	t.lock(lockAgent, agentUID)
	return first(t, scanTask, activeTask, agentUID)
}

func (t *readTx) Tasks(agentUID string, limit, offset int) ([]*fleet.Task, int, error) {
	t.lock(lockAgent, agentUID)
	total, err := first(t, scanInt, countOwn, agentUID)
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
	t.lock(lockSession, sessionID)
	return settled(t, lockAgent, agentOf, func() ([]*fleet.Task, error) { return all(t, scanTask, sessionTasks, sessionID, limit) })
}

func (t *readTx) LastTasks(uids []string) ([]*fleet.Task, error) {
	if len(uids) == 0 {
		return nil, t.err
	}
	t.lock(lockAgent, uids...)
	return all(t, scanTask, lastTasks, uids)
}

func (t *tx) InsertTask(task *fleet.Task) error {
	if err := t.grow(); err != nil {
		return err
	}
	t.lock(lockAgent, task.AgentUID)
	if task.SessionID != "" {
		t.lock(lockSession, task.SessionID)
	}
	t.share(lockHoldings, task.Owner)
	err := t.exec(insertTask, append(taskArgs(task), task.ID, task.AgentUID)...)
	if rest := task.Description[len(head(task.Description)):]; err == nil && rest != "" {
		err = t.exec(putRest, task.ID, rest)
	}
	if err != nil {
		return t.failed(taskError("add", task, err))
	}
	task.Revision = 1
	return nil
}

func (t *tx) UpdateTask(task *fleet.Task) error {
	t.lock(lockAgent, task.AgentUID)
	rest := task.Description[len(head(task.Description)):]
	query := updateShort
	if rest != "" {
		query = updateTask
	}
	revision, err := t.revise(query, append(taskArgs(task), task.ID)...)
	if err == nil && rest != "" {
		err = t.exec(putRest, task.ID, rest)
	}
	if err != nil {
		return t.failed(taskError("write", task, err))
	}
	task.Revision = revision
	return nil
}

func taskError(act string, task *fleet.Task, err error) error {
	switch {
	case taken(err, "tasks_active"):
		return fleet.Errorf(fleet.ReasonAgentBusy,
			"agent %q already has a running task: wait for it, or stop it first", task.AgentName).WithCause(err)
	case refused(err):
		err = errors.New("it has ended, and an ended task is never changed")
	}
	return fmt.Errorf("%s task %s: %w", act, task.ID, err)
}

// head returns the part of the description that lists show, in whole characters.
func head(description string) string {
	if len(description) <= maxHead {
		return description
	}
	for n := maxHead; n > maxHead-utf8.UTFMax; n-- {
		if utf8.RuneStart(description[n]) {
			return description[:n]
		}
	}
	return description[:maxHead] // it is not UTF-8 anyway
}

// search returns the text in which tasks are searched for. Upper and lower case are the same, in every locale.
func search(t *fleet.Task) string { return strings.ToLower(head(t.Description) + "\n" + t.Summary) }

// taskArgs returns the values of taskColumns and search.
func taskArgs(t *fleet.Task) []any {
	return []any{
		t.Trace, t.AgentUID, t.AgentName, t.Owner, string(t.Source), string(t.Status), t.Reason, int64(t.Timeout),
		t.CreatedAt, maybe(t.StartedAt), maybe(t.EndedAt), maybe(t.Dispatched), t.Cursor,
		t.OutputSize, maybe(t.StopAsked), t.StopReason, t.Summary, t.PayloadSize, t.ExitCode, t.CostUSD, t.Turns,
		t.SessionID, t.Usage.Model, t.Usage.InputTokens, t.Usage.OutputTokens, t.Usage.ToolCalls, t.SelfStarted, t.Reported, t.PayloadGap.Offset, t.PayloadGap.Size, t.Waiting, maybe(t.StalledAt), t.LastStep, t.Terminal, t.ConversationLost, t.Try, t.ChecksFailed, head(t.Description),
		search(t),
	}
}

func scanTask(row scanner) (*fleet.Task, error) {
	var (
		t                                                      fleet.Task
		rest                                                   *string
		timeout                                                int64
		created, started, ended, dispatched, stopping, stalled *time.Time
	)
	err := row.Scan(&t.ID, &t.Trace, &t.AgentUID, &t.AgentName, &t.Owner, (*string)(&t.Source), (*string)(&t.Status), &t.Reason, &timeout,
		&created, &started, &ended, &dispatched, &t.Cursor, &t.OutputSize, &stopping, &t.StopReason, &t.Summary, &t.PayloadSize,
		&t.ExitCode, &t.CostUSD, &t.Turns, &t.SessionID, &t.Usage.Model, &t.Usage.InputTokens, &t.Usage.OutputTokens, &t.Usage.ToolCalls,
		&t.SelfStarted, &t.Reported, &t.PayloadGap.Offset, &t.PayloadGap.Size, &t.Waiting, &stalled, &t.LastStep, &t.Terminal, &t.ConversationLost, &t.Try, &t.ChecksFailed, &t.Description, &t.PayloadRemoved, &t.Revision, &rest)
	if err != nil {
		return nil, err
	}
	t.Timeout = time.Duration(timeout)
	t.CreatedAt, t.StartedAt, t.EndedAt = timeOf(created), timeOf(started), timeOf(ended)
	t.Dispatched, t.StopAsked = timeOf(dispatched), timeOf(stopping)
	t.StalledAt = timeOf(stalled)
	if rest != nil {
		t.Description += *rest
	}
	return &t, nil
}
