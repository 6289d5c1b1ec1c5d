package record

import (
	"fmt"

	"fleet/internal/fleet"
)

// questionColumns are the columns of questions, except the key of the agent's name.
const questionColumns = `id, task_id, agent_uid, agent_name, owner, kind, text, tool, input, options, asked_at, expires_at,
	status, answer, message, answered_by, answered_at, given_at, rules, remember`

const (
	selectQuestions = `SELECT ` + questionColumns + ` FROM questions `
	updateQuestion  = `UPDATE questions SET status = ?, answer = ?, message = ?, answered_by = ?, answered_at = ?, given_at = ?, remember = ?
		WHERE id = ? RETURNING 1 AS revision`
)

var insertQuestion = insertStatement("questions", questionColumns+", name_key")

func (t ReadTx) questions(query string, args ...any) ([]*fleet.Question, error) {
	return ReadLocked(t.DB, LockTask, func(q *fleet.Question) string { return q.TaskID }, func() ([]*fleet.Question, error) {
		return QueryAll(t.DB, scanQuestion, query, args...)
	})
}

// Questions returns a page of the matching questions, see fleet.ReadTx.
func (t ReadTx) Questions(f fleet.QuestionFilter, limit, offset int) ([]*fleet.Question, int, error) {
	if f.TaskID != "" {
		t.DB.Lock(LockTask, f.TaskID)
	}
	where, args := questionConditions(f, t.DB.Dialect().InList)
	total, err := QueryFirst(t.DB, ScanInt, `SELECT count(*) FROM questions `+where, args...)
	if err != nil || limit <= 0 || offset >= total {
		return nil, total, err
	}
	questions, err := t.questions(selectQuestions+where+` ORDER BY n DESC LIMIT ? OFFSET ?`, append(args, limit, max(0, offset))...)
	return questions, total, err
}

// questionConditions returns the filter as SQL, with its values. It repeats the conditions of the indexes literally, so that
// the database uses them. in is Dialect.InList.
func questionConditions(f fleet.QuestionFilter, in string) (where string, args []any) {
	where = `WHERE true`
	add := func(condition string, values ...any) {
		where += ` AND ` + condition
		args = append(args, values...)
	}
	if f.TaskID != "" {
		add(`task_id = ?`, f.TaskID)
	}
	switch {
	case f.Owner == "":
	case len(f.SharedUIDs) == 0:
		add(`owner = ?`, f.Owner)
	default:
		add(`(owner = ? OR agent_uid `+in+`)`, f.Owner, TextList(f.SharedUIDs))
	}
	if len(f.Projects) > 0 {
		add(`agent_uid IN (SELECT uid FROM agents WHERE project <> '' AND (project `+in+` OR place || '/' || project `+in+`))`, TextList(f.Projects), TextList(f.Projects))
	}
	if f.AgentUID != "" {
		add(`agent_uid = ?`, f.AgentUID)
	}
	if f.AgentName != "" {
		add(`name_key = ?`, NameKey(f.AgentName))
	}
	if f.ID != "" {
		add(`id = ?`, f.ID)
	}
	if f.Prefix != "" {
		add(`id >= ? AND id < ?`, f.Prefix, f.Prefix+"\U0010FFFF")
	}
	if f.Waiting {
		add(`status = 'waiting'`)
	}
	if f.Undelivered {
		add(`status = 'answered' AND given_at IS NULL`)
	}
	return where, args
}

func (t Tx) insertQuestion(q *fleet.Question) error {
	if err := t.DB.CheckSpace(); err != nil {
		return err
	}
	args, err := questionArgs(q)
	if err != nil {
		return t.DB.Fail(err)
	}
	t.DB.Lock(LockTask, q.TaskID)
	return t.DB.Exec(func(err error) error { return fmt.Errorf("add question %s: %w", q.ID, err) },
		insertQuestion, append(args, NameKey(q.AgentName))...)
}

func (t Tx) updateQuestion(q *fleet.Question) error {
	t.DB.Lock(LockTask, q.TaskID)
	return t.DB.Revise(new(int64), func(err error) error { return fmt.Errorf("write question %s: %w", q.ID, err) },
		updateQuestion, string(q.Status), q.Answer, q.Message, q.AnsweredBy, NullTime(q.AnsweredAt), NullTime(q.DeliveredAt), string(q.Remember), q.ID)
}

// questionArgs returns the values of questionColumns.
func questionArgs(q *fleet.Question) ([]any, error) {
	options, err := marshalText(q.Options)
	var rules *string
	if err == nil && len(q.Rules) > 0 {
		rules, err = marshalText(q.Rules)
	}
	return []any{
		q.ID, q.TaskID, q.AgentUID, q.AgentName, q.Owner, string(q.Kind), q.Text, q.Tool, q.Input, options, q.AskedAt, NullTime(q.ExpiresAt),
		string(q.Status), q.Answer, q.Message, q.AnsweredBy, NullTime(q.AnsweredAt), NullTime(q.DeliveredAt), rules, string(q.Remember),
	}, err
}

func scanQuestion(row Scanner) (*fleet.Question, error) {
	var q fleet.Question
	return &q, row.Scan(&q.ID, &q.TaskID, &q.AgentUID, &q.AgentName, &q.Owner, (*string)(&q.Kind), &q.Text, &q.Tool, &q.Input,
		jsonColumn{&q.Options}, (*TimeColumn)(&q.AskedAt), (*TimeColumn)(&q.ExpiresAt), (*string)(&q.Status), &q.Answer, &q.Message, &q.AnsweredBy,
		(*TimeColumn)(&q.AnsweredAt), (*TimeColumn)(&q.DeliveredAt), jsonColumn{&q.Rules}, (*string)(&q.Remember))
}
