package postgres

import (
	"encoding/json"
	"fmt"
	"time"

	"fleet/internal/fleet"
)

const (
	questionColumns = `id, task_id, agent_uid, agent_name, owner, kind, text, tool, input, options, asked_at, expires_at,
		status, answer, message, answered_by, answered_at, given_at`
	selectQuestions = `SELECT ` + questionColumns + ` FROM questions `
	updateQuestion  = `UPDATE questions SET status = $1, answer = $2, message = $3, answered_by = $4, answered_at = $5, given_at = $6
		WHERE id = $7 RETURNING 1`
)

var insertQuestion = numbered(`INSERT INTO questions (` + questionColumns + `, name_key) VALUES (` + marks(questionColumns) + `, ?)`)

func (t *readTx) Question(id string) (*fleet.Question, error) {
	got, err := t.questions(selectQuestions+`WHERE id = $1`, id)
	if err != nil || len(got) == 0 {
		return nil, err
	}
	return got[0], nil
}

func (t *readTx) questions(query string, args ...any) ([]*fleet.Question, error) {
	return settled(t, lockTask, func(q *fleet.Question) []string { return []string{q.TaskID} }, func() ([]*fleet.Question, error) {
		return all(t, scanQuestion, query, args...)
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
	questions, err := t.questions(selectQuestions+`WHERE `+c.where+`true ORDER BY n DESC LIMIT `+c.arg(limit)+` OFFSET `+c.arg(max(0, offset)), c.args...)
	return questions, total, err
}

// questionConditions returns the filter as SQL. It repeats the conditions of the indexes, so that these are used.
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
		c.add(`name_key = ?`, key(f.AgentName))
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

func (t *tx) InsertQuestion(q *fleet.Question) error {
	if err := t.grow(); err != nil {
		return err
	}
	options, err := json.Marshal(q.Options)
	if err != nil {
		return t.failed(err)
	}
	t.lock(lockTask, q.TaskID)
	if err := t.exec(insertQuestion, q.ID, q.TaskID, q.AgentUID, q.AgentName, q.Owner, string(q.Kind), q.Text, q.Tool, q.Input, string(options),
		q.AskedAt, q.ExpiresAt, string(q.Status), q.Answer, q.Message, q.AnsweredBy, maybe(q.AnsweredAt),
		maybe(q.GivenAt), key(q.AgentName)); err != nil {
		return t.failed(fmt.Errorf("add question %s: %w", q.ID, err))
	}
	return nil
}

func (t *tx) UpdateQuestion(q *fleet.Question) error {
	t.lock(lockTask, q.TaskID)
	if _, err := t.revise(updateQuestion, string(q.Status), q.Answer, q.Message, q.AnsweredBy, maybe(q.AnsweredAt),
		maybe(q.GivenAt), q.ID); err != nil {
		return t.failed(fmt.Errorf("write question %s: %w", q.ID, err))
	}
	return nil
}

func scanQuestion(row scanner) (*fleet.Question, error) {
	var (
		q                               fleet.Question
		options                         []byte
		asked, expires, answered, given *time.Time
	)
	err := row.Scan(&q.ID, &q.TaskID, &q.AgentUID, &q.AgentName, &q.Owner, (*string)(&q.Kind), &q.Text, &q.Tool, &q.Input, &options,
		&asked, &expires, (*string)(&q.Status), &q.Answer, &q.Message, &q.AnsweredBy, &answered, &given)
	if err != nil {
		return nil, err
	}
	q.AskedAt, q.ExpiresAt, q.AnsweredAt, q.GivenAt = timeOf(asked), timeOf(expires), timeOf(answered), timeOf(given)
	return &q, json.Unmarshal(options, &q.Options)
}
