package reconcile_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/service"
	"fleet/internal/service/servicetest"
	"fleet/internal/state"
)

// TestQuestionSurvivesRestart checks that a question can be answered after Fleet was restarted.
func TestQuestionSurvivesRestart(t *testing.T) {
	t.Parallel()
	h := servicetest.NewWithPapi(t, fake.Config{}, nil)
	task := h.Start("papi", "ask tabs?\ndone well")
	q := h.WaitQuestion(task.ID)
	h.Restart()
	require.Equal(t, q.ID, h.WaitQuestion(task.ID).ID)
	_, reply, err := h.AnswerQuestion(h.Context(), service.AnswerQuestionRequest{ID: q.ID, Answer: "spaces"})
	require.NoError(t, err)
	require.Equal(t, "The agent has the answer", reply)
	require.Equal(t, fleet.TaskCompleted, h.WaitTask(task.ID).Status)
	require.Equal(t, "answer: spaces", h.Output(task.ID))
}

// TestForgedAnswer answers a question without Fleet, as an unconfined agent could. It checks that Fleet shows the answer
// as given by ByUnknown, not by the forged name.
func TestForgedAnswer(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{}, nil)
	v := h.Create("papi")
	task := h.Start("papi", "ask-permission Bash\ndone well")
	q := *h.WaitQuestion(task.ID)
	q.Answer, q.AnsweredBy = fleet.AnswerAllow, "alice"
	require.NoError(t, h.FakePlace.Connect(v.Agent).Answer(t.Context(), fleet.Run{TaskID: task.ID}, q))
	require.Equal(t, fleet.TaskCompleted, h.WaitTask(task.ID).Status)
	all, err := h.ListQuestions(h.Context(), service.ListQuestionsRequest{TaskID: task.ID, IncludeAnswered: true})
	require.NoError(t, err)
	require.Equal(t, fleet.QuestionAnswered, all.Questions[0].Status)
	require.Equal(t, fleet.ByUnknown, all.Questions[0].AnsweredBy)
}

// TestTooManyQuestions lets an agent ask more questions than Fleet stores for a task. It checks that an event says why
// nobody can answer the last question.
func TestTooManyQuestions(t *testing.T) {
	t.Parallel()
	h := servicetest.NewWithPapi(t, fake.Config{}, nil)
	task := h.Start("papi", "ask tabs?\nask spaces?")
	first := h.WaitQuestion(task.ID)
	require.NoError(t, h.Store.Update(t.Context(), func(tx fleet.Tx) error {
		for n := 1; n < state.MaxQuestions; n++ {
			q := *first
			q.ID = fmt.Sprintf("%s-old-%d", task.ID, n)
			q.Status, q.DeliveredAt = fleet.QuestionExpired, q.AskedAt
			if err := tx.Insert(&q); err != nil {
				return err
			}
		}
		return nil
	}))
	_, _, err := h.AnswerQuestion(h.Context(), service.AnswerQuestionRequest{ID: first.ID, Answer: "tabs"})
	require.NoError(t, err)
	h.WaitStored(func() bool {
		last := servicetest.Read(h, func(tx fleet.ReadTx) ([]fleet.Event, error) {
			return tx.Events(fleet.EventFilter{TaskID: task.ID, Types: []fleet.EventType{fleet.EventTaskStep}}, fleet.EventWindow{Newest: true, Limit: 1})
		})
		return len(last) == 1 && last[0].Text == "the agent asked a question that nobody can answer: a task has at most 1000"
	})
	_, _, _, err = h.StopTask(h.Context(), "papi", "")
	require.NoError(t, err)
}
