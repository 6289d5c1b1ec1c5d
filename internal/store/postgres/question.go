package postgres

import (
	"fmt"

	"fleet/internal/fleet"
	"fleet/internal/store/record"
)

const (
	updateQuestion = `UPDATE questions SET status = $1, answer = $2, message = $3, answered_by = $4, answered_at = $5, given_at = $6, remember = $7
		WHERE id = $8 RETURNING 1`
)

var insertQuestion = numbered(`INSERT INTO questions (` + record.QuestionColumns + `, name_key) VALUES (` + record.Marks(record.QuestionColumns) + `, ?)`)

func (t *readTx) Question(id string) (*fleet.Question, error) {
	got, err := t.questions(record.SelectQuestions+`WHERE id = $1`, id)
	if err != nil || len(got) == 0 {
		return nil, err
	}
	return got[0], nil
}

func (t *readTx) questions(query string, args ...any) ([]*fleet.Question, error) {
	return settled(t, lockTask, func(q *fleet.Question) []string { return []string{q.TaskID} }, func() ([]*fleet.Question, error) {
		return all(t, record.ScanQuestion, query, args...)
	})
}

func (t *readTx) Questions(f fleet.QuestionFilter, limit, offset int) ([]*fleet.Question, int, error) {
	if f.TaskID != "" {
		t.lock(lockTask, f.TaskID)
	}
	c := questionConditions(f)
	total, err := first(t, scanInt, `SELECT count(*) FROM questions WHERE `+c.where+`true`, c.args...)
	if err != nil || limit <= 0 || offset >= total {
		return nil, total, err
	}
	questions, err := t.questions(record.SelectQuestions+`WHERE `+c.where+`true ORDER BY n DESC LIMIT `+c.arg(limit)+` OFFSET `+c.arg(max(0, offset)), c.args...)
	return questions, total, err
}

// questionConditions returns the filter as SQL. It repeats the conditions of the indexes, so that the database uses
// them.
func questionConditions(f fleet.QuestionFilter) *clause {
	c := &clause{}
	if f.TaskID != "" {
		c.add(`task_id = ?`, f.TaskID)
	}
	c.visible(f.Owner, f.Shared)
	c.ofProjects(f.Projects)
	if f.AgentUID != "" {
		c.add(`agent_uid = ?`, f.AgentUID)
	}
	if f.AgentName != "" {
		c.add(`name_key = ?`, record.Key(f.AgentName))
	}
	if f.Prefix != "" {
		c.add(`id >= ?`, f.Prefix)
		c.add(`id < ?`, f.Prefix+lastChar)
	}
	if f.Waiting {
		c.where += `status = 'waiting' AND `
	}
	if f.NotGiven {
		c.where += `status = 'answered' AND given_at IS NULL AND `
	}
	return c
}

func (t *tx) insertQuestion(q *fleet.Question) error {
	if err := t.grow(); err != nil {
		return err
	}
	args, err := record.QuestionArgs(q)
	if err != nil {
		return t.failed(err)
	}
	t.lock(lockTask, q.TaskID)
	if err := t.exec(insertQuestion, append(args, record.Key(q.AgentName))...); err != nil {
		return t.failed(fmt.Errorf("add question %s: %w", q.ID, err))
	}
	return nil
}

func (t *tx) updateQuestion(q *fleet.Question) error {
	t.lock(lockTask, q.TaskID)
	if _, err := t.revise(updateQuestion, string(q.Status), q.Answer, q.Message, q.AnsweredBy, maybe(q.AnsweredAt),
		maybe(q.GivenAt), string(q.Remember), q.ID); err != nil {
		return t.failed(fmt.Errorf("write question %s: %w", q.ID, err))
	}
	return nil
}
