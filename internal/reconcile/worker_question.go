package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/state"
)

// answerFailures counts consecutive failures to deliver answers to a task's run.
type answerFailures struct {
	taskID  string
	count   int
	retryAt time.Time // when to try again
}

// recordQuestion records a question that the runner reports, or its new state. It may get a question that is already recorded,
// because each Follow reports the open questions again. It changes t.OpenQuestions, which the caller writes.
func (w *worker) recordQuestion(tx fleet.Tx, t *fleet.Task, q fleet.Question) error {
	if !validQuestion(&q) {
		return tx.Append(t.Event(fleet.EventTaskStep, w.now(), "the runner reported an invalid question of the agent"))
	}
	q.ID, q.TaskID, q.AgentUID, q.AgentName, q.Owner = questionID(t, q.ID), t.ID, t.AgentUID, t.AgentName, t.Owner
	shortenQuestion(&q)
	normalizeQuestion(&q, w.now())
	old, err := fleet.QuestionByID(tx, q.ID)
	if err != nil {
		return err
	}
	if old == nil {
		_, total, err := tx.Questions(fleet.QuestionFilter{TaskID: t.ID}, 0, 0)
		switch {
		case err != nil:
			return err
		case total >= state.MaxQuestions && q.Status == fleet.QuestionWaiting:
			return tx.Append(t.Event(fleet.EventTaskStep, w.now(), fmt.Sprintf("the agent asked a question that nobody can answer: a task has at most %d", state.MaxQuestions)))
		case total >= state.MaxQuestions:
			return nil
		}
		return w.newQuestion(tx, t, &q)
	}
	if old.Final() || q.Status == fleet.QuestionWaiting {
		return nil
	}
	// The runner's status replaces the stored status, even if somebody has answered: the question may have expired before the
	// answer arrived.
	alreadyAnswered := old.Status == fleet.QuestionAnswered && q.Status == fleet.QuestionAnswered
	if old.Status == fleet.QuestionWaiting {
		t.OpenQuestions--
	}
	old.Status, old.DeliveredAt = q.Status, w.now()
	if q.Status == fleet.QuestionAnswered && old.AnsweredBy == "" {
		old.Answer, old.Message, old.AnsweredBy, old.AnsweredAt = q.Answer, q.Message, q.AnsweredBy, q.AnsweredAt
	}
	if err := tx.Update(old); err != nil || alreadyAnswered {
		return err
	}
	return tx.Append(old.Event(t, fleet.EventTaskAnswer, w.now(), old.OutcomeText()))
}

// newQuestion records a question that the store does not have.
func (w *worker) newQuestion(tx fleet.Tx, t *fleet.Task, q *fleet.Question) error {
	if q.Status != fleet.QuestionWaiting {
		q.DeliveredAt = w.now()
	}
	if err := tx.Insert(q); err != nil {
		return err
	}
	if q.AnsweredBy == fleet.ByPolicy { // nobody was asked
		return tx.Append(q.Event(t, fleet.EventTaskAnswer, w.now(), questionText(q)+" "+q.OutcomeText()))
	}
	if err := tx.Append(q.Event(t, fleet.EventTaskQuestion, w.now(), questionText(q)+" [question "+q.ID+"]")); err != nil {
		return err
	}
	if q.Status == fleet.QuestionWaiting {
		t.OpenQuestions++
		return nil
	}
	return tx.Append(q.Event(t, fleet.EventTaskAnswer, w.now(), q.OutcomeText()))
}

// stepAnswers delivers the answers to the run's questions. If an answer could not be delivered, it returns how long to wait
// before the next try, and otherwise 0.
func (w *worker) stepAnswers(ctx context.Context, a *fleet.Agent, t *fleet.Task) (time.Duration, error) {
	if d := w.answerFailures.retryAt.Sub(w.now()); d > 0 && w.answerFailures.taskID == t.ID {
		return d, nil
	}
	if !t.HasQuestions {
		return 0, nil
	}
	var open []*fleet.Question
	if err := w.store.View(ctx, func(tx fleet.ReadTx) (err error) {
		open, _, err = tx.Questions(fleet.QuestionFilter{TaskID: t.ID, Undelivered: true}, state.MaxQuestions, 0)
		return err
	}); err != nil {
		return 0, err
	}
	for _, q := range open {
		w.cfg.Fault(FaultAnswerBefore)
		err := w.shortCall(ctx, a, func(ctx context.Context) error {
			return w.places.Of(a).Connect(*a).Answer(ctx, t.Run(), *q)
		})
		w.cfg.Fault(FaultAnswerAfter)
		switch {
		case ctx.Err() != nil:
			return 0, ctx.Err()
		case errors.Is(err, errSuperseded):
			return 0, nil
		case err != nil && mayRetry(err):
			if w.answerFailures.taskID != t.ID {
				w.answerFailures = answerFailures{taskID: t.ID}
			}
			w.answerFailures.count++
			d := backoff(w.answerFailures.count, maxRunRetryDelay)
			w.answerFailures.retryAt = w.now().Add(d)
			w.log.WarnContext(ctx, "answer not delivered, retrying", slog.String("task", t.ID), slog.Any("error", err))
			return d, nil
		case err != nil:
			w.log.InfoContext(ctx, "answer refused", slog.String("task", t.ID), slog.Any("error", err))
		}
		w.answerFailures = answerFailures{}
		if err := w.recordAnswerDelivery(ctx, q.ID, err); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

// recordAnswerDelivery records that the agent has received the answer or, if err is not nil, that it will never receive it.
func (w *worker) recordAnswerDelivery(ctx context.Context, id string, err error) error {
	return w.store.Update(ctx, func(tx fleet.Tx) error {
		q, readErr := fleet.QuestionByID(tx, id)
		if readErr != nil || q == nil || q.Final() {
			return readErr
		}
		q.DeliveredAt = w.now()
		if err == nil {
			return tx.Update(q)
		}
		t, readErr := tx.Task(q.TaskID)
		if readErr != nil || t == nil {
			return readErr
		}
		q.Status = fleet.QuestionWithdrawn
		if err := tx.Update(q); err != nil {
			return err
		}
		return tx.Append(q.Event(t, fleet.EventTaskAnswer, q.DeliveredAt, q.OutcomeText()))
	})
}
