package service_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/service"
	"fleet/internal/service/servicetest"
)

// TestAgentAnswersNoQuestion checks that an agent cannot answer a question, not even its own.
func TestAgentAnswersNoQuestion(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{}, nil)
	v := h.Create("papi")
	task := h.Start("papi", "ask-permission Bash\ndone well")
	q := h.WaitQuestion(task.ID)
	agentCtx := fleet.WithPrincipal(h.Context(), fleet.Principal{Name: "alice", Kind: fleet.KindAgent, AgentUID: v.UID, AgentName: "papi"})
	_, _, err := h.AnswerQuestion(agentCtx, service.AnswerQuestionRequest{ID: q.ID, Answer: fleet.AnswerAllow})
	require.Equal(t, fleet.ReasonPermissionDenied, fleet.ReasonOf(err), "%v", err)
	_, _, err = h.AnswerQuestion(h.Context(), service.AnswerQuestionRequest{ID: q.ID, Answer: fleet.AnswerAllow})
	require.NoError(t, err)
	require.Equal(t, fleet.TaskCompleted, h.WaitTask(task.ID).Status)
}
