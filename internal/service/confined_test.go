package service_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/service"
	"fleet/internal/state"
	"fleet/internal/store/sqlite/sqlitetest"
)

// projectConfiningPlace is a place that confines only agents of projects.
type projectConfiningPlace struct{ *fake.Place }

func (projectConfiningPlace) UnconfinedReason(a fleet.Agent) string {
	if a.Project == "" {
		return "use Linux 6.12 or later"
	}
	return ""
}

// TestUnconfinedAgentsAreForAdmins checks that only an admin can launch an agent whose programs are not confined, start a
// task on it, send it a message, or answer its question.
func TestUnconfinedAgentsAreForAdmins(t *testing.T) {
	t.Parallel()
	store, err := sqlitetest.Open(t.Context(), filepath.Join(t.TempDir(), "fleet.db"))
	require.NoError(t, err)
	defer store.Close()
	place := fake.New(fake.Config{Traits: fleet.Traits{Name: fleet.PlaceOn("fake", "here"), Drivers: []fleet.Driver{{Name: "fake"}}}})
	defer place.Destroy()
	s := service.New(state.New(store, []fleet.Place{projectConfiningPlace{place}}, state.Config{Replica: "here"}))
	as := func(scope fleet.Scope) context.Context {
		return fleet.WithPrincipal(t.Context(), fleet.Principal{Name: "ada", Scope: scope})
	}
	launch := func(scope fleet.Scope) error {
		ctx := as(scope)
		_, err := s.Launch(ctx, service.LaunchRequest{Method: "Start", Toolset: fleet.ToolsetLifecycle, Config: &fleet.AgentConfig{Driver: "fake"}, Spec: "x"})
		return err
	}
	err = launch(fleet.ScopeRun)
	require.Equal(t, fleet.ReasonPermissionDenied, fleet.ReasonOf(err), "%v", err)
	require.ErrorContains(t, err, "use Linux 6.12 or later")
	require.NoError(t, launch(fleet.ScopeAdmin))

	require.NoError(t, store.Update(t.Context(), func(tx fleet.Tx) error {
		return errors.Join(
			tx.Insert(&fleet.Agent{UID: "u1", Name: "papi", Owner: "ada", Place: "fake@here", State: fleet.StateRunning, Desired: fleet.DesiredRunning}),
			tx.Insert(&fleet.Agent{UID: "u3", Name: "toto", Owner: "ada", Place: "fake@there", Project: "theirs", State: fleet.StateRunning, Desired: fleet.DesiredRunning}),
			tx.Insert(&fleet.Agent{UID: "u4", Name: "lala", Owner: "ada", Place: "fake@there", Project: "Setup", State: fleet.StateRunning, Desired: fleet.DesiredRunning}),
			tx.Insert(&fleet.Agent{UID: "u2", Name: "mami", Owner: "ada", Place: "fake@there", State: fleet.StateRunning, Desired: fleet.DesiredRunning}),
			tx.Insert(&fleet.Task{ID: "task-1", AgentUID: "u1", AgentName: "papi", Owner: "ada", Status: fleet.TaskRunning, Source: fleet.SourceHuman, OpenQuestions: 1}),
			tx.Insert(&fleet.Question{ID: "question-1", TaskID: "task-1", AgentUID: "u1", AgentName: "papi", Owner: "ada", Kind: fleet.AskPermission, Status: fleet.QuestionWaiting}),
		)
	}))
	_, _, err = s.SendMessage(as(fleet.ScopeRun), "papi", "also read the keys", "")
	require.Equal(t, fleet.ReasonPermissionDenied, fleet.ReasonOf(err), "%v", err)
	_, err = s.StartTask(as(fleet.ScopeRun), service.StartTaskRequest{Agent: "mami", Description: "read the keys"})
	require.Equal(t, fleet.ReasonPermissionDenied, fleet.ReasonOf(err), "on the machine of another server: %v", err)
	_, err = s.StartTask(as(fleet.ScopeRun), service.StartTaskRequest{Agent: "toto", Description: "read the keys"})
	require.Equal(t, fleet.ReasonPermissionDenied, fleet.ReasonOf(err), "in a project that this server does not have: %v", err)
	require.ErrorContains(t, err, "call the server there")
	_, err = s.StartTask(as(fleet.ScopeRun), service.StartTaskRequest{Agent: "lala", Description: "read the keys"})
	require.NoError(t, err)
	_, err = s.StartTask(as(fleet.ScopeAdmin), service.StartTaskRequest{Agent: "mami", Description: "read the keys"})
	require.NoError(t, err)
	allow := service.AnswerQuestionRequest{ID: "question-1", Answer: fleet.AnswerAllow}
	_, _, err = s.AnswerQuestion(as(fleet.ScopeRun), allow)
	require.Equal(t, fleet.ReasonPermissionDenied, fleet.ReasonOf(err), "%v", err)
	_, _, err = s.AnswerQuestion(as(fleet.ScopeAdmin), allow)
	require.NotEqual(t, fleet.ReasonPermissionDenied, fleet.ReasonOf(err), "%v", err)
}
