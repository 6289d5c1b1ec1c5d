package state

import (
	"time"

	"fleet/internal/fleet"
)

// MaxQuestions is the maximum number of questions of one task. Runners have their own limit; this limit protects the store
// from an untrusted runner.
const MaxQuestions = 1000

// WithdrawQuestions marks the questions of a task that are not final as withdrawn, for example because the task ends. The caller writes the task.
func WithdrawQuestions(tx fleet.Tx, t *fleet.Task, now time.Time) error {
	t.OpenQuestions = 0
	if !t.HasQuestions {
		return nil
	}
	all, _, err := tx.Questions(fleet.QuestionFilter{TaskID: t.ID}, MaxQuestions, 0)
	for _, q := range all {
		if err == nil && !q.Final() {
			q.Status, q.DeliveredAt = fleet.QuestionWithdrawn, now
			err = tx.Update(q)
		}
	}
	return err
}

// insertQuestion records a question of Fleet about the pending task, and writes the task. The task waits until somebody answers.
func insertQuestion(tx fleet.Tx, t *fleet.Task, q *fleet.Question, now time.Time) error {
	q.AskedAt = now
	if err := tx.Insert(q); err != nil {
		return err
	}
	t.OpenQuestions++
	if err := tx.Update(t); err != nil {
		return err
	}
	return tx.Append(q.Event(t, fleet.EventTaskQuestion, now, q.Text+" [question "+q.ID+"]"))
}
