package sqlite

import (
	"fmt"

	"fleet/internal/fleet"
	"fleet/internal/store/record"
)

const (
	updateQuestion = `UPDATE questions SET status = ?, answer = ?, message = ?, answered_by = ?, answered_at = ?, given_at = ?, remember = ?
		WHERE id = ? RETURNING 1`
	questionsNewest = ` ORDER BY n DESC LIMIT ? OFFSET ?`
)

var insertQuestion = `INSERT INTO questions (` + record.QuestionColumns + `, name_key) VALUES (` + record.Marks(record.QuestionColumns) + `, ?)`

func (t *readTx) Question(id string) (*fleet.Question, error) {
	return first(t, record.ScanQuestion, record.SelectQuestions+`WHERE id = ?`, id)
}

func (t *readTx) Questions(f fleet.QuestionFilter, limit, offset int) ([]*fleet.Question, int, error) {
	where, args := questionConditions(f)
	total, err := first(t, scanInt, `SELECT count(*) FROM questions `+where, args...)
	if err != nil || limit <= 0 || offset >= total {
		return nil, total, err
	}
	questions, err := all(t, record.ScanQuestion, record.SelectQuestions+where+questionsNewest, append(args, limit, max(0, offset))...)
	return questions, total, err
}

// questionConditions returns the filter as SQL, with its values. It repeats the conditions of the indexes literally,
// because SQLite would not use the indexes otherwise.
func questionConditions(f fleet.QuestionFilter) (where string, args []any) {
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
	case len(f.Shared) == 0:
		add(`owner = ?`, f.Owner)
	default:
		add(`(owner = ? OR agent_uid `+uidsIn+`)`, f.Owner, list(f.Shared))
	}
	if len(f.Projects) > 0 {
		add(ofProjects, list(f.Projects), list(f.Projects))
	}
	if f.AgentUID != "" {
		add(`agent_uid = ?`, f.AgentUID)
	}
	if f.AgentName != "" {
		add(`name_key = ?`, record.Key(f.AgentName))
	}
	if f.Prefix != "" {
		add(`id >= ? AND id < ?`, f.Prefix, f.Prefix+"\U0010FFFF")
	}
	if f.Waiting {
		add(`status = 'waiting'`)
	}
	if f.NotGiven {
		add(`status = 'answered' AND given_at IS NULL`)
	}
	return where, args
}

func (t *tx) insertQuestion(q *fleet.Question) error {
	if err := t.grow(); err != nil {
		return err
	}
	args, err := record.QuestionArgs(q)
	if err != nil {
		return t.failed(err)
	}
	if _, err := t.exec(insertQuestion, append(args, record.Key(q.AgentName))...); err != nil {
		return t.failed(fmt.Errorf("add question %s: %w", q.ID, err))
	}
	return nil
}

func (t *tx) updateQuestion(q *fleet.Question) error {
	if _, err := t.revise(updateQuestion, string(q.Status), q.Answer, q.Message, q.AnsweredBy, maybeMicros(q.AnsweredAt),
		maybeMicros(q.GivenAt), string(q.Remember), q.ID); err != nil {
		return t.failed(fmt.Errorf("write question %s: %w", q.ID, err))
	}
	return nil
}
