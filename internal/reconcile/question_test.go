package reconcile_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/service"
	"fleet/internal/service/servicetest"
)

// TestQuestionSurvivesRestart restarts Fleet while a question waits.
func TestQuestionSurvivesRestart(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{}, nil)
	h.Create("papi")
	task := h.Start("papi", "ask tabs?\ndone well")
	q := h.Asked(task.ID)
	h.Restart()
	require.Equal(t, q.ID, h.Asked(task.ID).ID)
	_, said, err := h.AnswerQuestion(h.Context(), service.AnswerQuestionRequest{ID: q.ID, Answer: "spaces"})
	require.NoError(t, err)
	require.Equal(t, "The agent has the answer", said)
	require.Equal(t, fleet.TaskCompleted, h.End(task.ID).Status)
	require.Equal(t, "answer: spaces", h.Output(task.ID))
}

// TestForgedAnswer answers a question around Fleet, as an agent that is not confined could: nobody is said to have
// answered who has not.
func TestForgedAnswer(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{}, nil)
	v := h.Create("papi")
	task := h.Start("papi", "ask-permission Bash\ndone well")
	q := *h.Asked(task.ID)
	q.Answer, q.AnsweredBy = fleet.AnswerAllow, "alice"
	require.NoError(t, h.World.Connect(v.Agent).Answer(t.Context(), fleet.Run{TaskID: task.ID}, q))
	require.Equal(t, fleet.TaskCompleted, h.End(task.ID).Status)
	all, err := h.ListQuestions(h.Context(), service.ListQuestionsRequest{TaskID: task.ID, Answered: true})
	require.NoError(t, err)
	require.Equal(t, fleet.QuestionAnswered, all.Questions[0].Status)
	require.Equal(t, fleet.ByUnknown, all.Questions[0].AnsweredBy)
}
