package service_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/service"
	"fleet/internal/waittest"
)

// asked waits until the task has asked something that waits for an answer, and returns that.
func (h *harness) asked(taskID string) *fleet.Question {
	h.t.Helper()
	signal, cancel := h.store.Subscribe()
	defer cancel()
	timeout := time.After(waittest.Limit)
	for {
		all, err := h.ListQuestions(h.ctx(), service.ListQuestionsRequest{TaskID: taskID})
		require.NoError(h.t, err)
		if len(all.Questions) > 0 {
			return all.Questions[0]
		}
		select {
		case <-signal:
		case <-timeout:
			require.Fail(h.t, "the task asks nothing")
		}
	}
}

// TestQuestionSurvivesRestart restarts Fleet while a question waits.
func TestQuestionSurvivesRestart(t *testing.T) {
	t.Parallel()
	h := newHarness(t, fake.Config{}, nil)
	h.create("papi")
	task := h.start("papi", "ask tabs?\ndone well")
	q := h.asked(task.ID)
	h.restart()
	require.Equal(t, q.ID, h.asked(task.ID).ID)
	_, said, err := h.AnswerQuestion(h.ctx(), service.AnswerQuestionRequest{ID: q.ID, Answer: "spaces"})
	require.NoError(t, err)
	require.Equal(t, "The agent has the answer", said)
	require.Equal(t, fleet.TaskCompleted, h.end(task.ID).Status)
	require.Equal(t, "answer: spaces", h.output(task.ID))
}

// TestForgedAnswer answers a question around Fleet, as an agent that is not confined could: nobody is said to have
// answered who has not.
func TestForgedAnswer(t *testing.T) {
	t.Parallel()
	h := newHarness(t, fake.Config{}, nil)
	v := h.create("papi")
	task := h.start("papi", "ask-permission Bash\ndone well")
	q := *h.asked(task.ID)
	q.Answer, q.AnsweredBy = fleet.AnswerAllow, "alice"
	require.NoError(t, h.world.Connect(v.Agent).Answer(t.Context(), fleet.Run{TaskID: task.ID}, q))
	require.Equal(t, fleet.TaskCompleted, h.end(task.ID).Status)
	all, err := h.ListQuestions(h.ctx(), service.ListQuestionsRequest{TaskID: task.ID, Answered: true})
	require.NoError(t, err)
	require.Equal(t, fleet.QuestionAnswered, all.Questions[0].Status)
	require.Equal(t, fleet.ByUnknown, all.Questions[0].AnsweredBy)
}

// TestAgentAnswersNoQuestion holds that the principal of an agent answers no question, be it its own.
func TestAgentAnswersNoQuestion(t *testing.T) {
	t.Parallel()
	h := newHarness(t, fake.Config{}, nil)
	v := h.create("papi")
	task := h.start("papi", "ask-permission Bash\ndone well")
	q := h.asked(task.ID)
	as := fleet.WithPrincipal(h.ctx(), fleet.Principal{Name: "alice", Kind: fleet.AgentKind, AgentUID: v.UID, AgentName: "papi"})
	_, _, err := h.AnswerQuestion(as, service.AnswerQuestionRequest{ID: q.ID, Answer: fleet.AnswerAllow})
	require.Equal(t, fleet.ReasonPermissionDenied, fleet.ReasonOf(err), "%v", err)
	_, _, err = h.AnswerQuestion(h.ctx(), service.AnswerQuestionRequest{ID: q.ID, Answer: fleet.AnswerAllow})
	require.NoError(t, err)
	require.Equal(t, fleet.TaskCompleted, h.end(task.ID).Status)
}
