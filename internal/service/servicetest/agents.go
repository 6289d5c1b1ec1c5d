package servicetest

import (
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/service"
	"fleet/internal/waittest"
)

// Create creates an agent of alice in the project Setup, and returns it when it is idle.
func (h *Harness) Create(name string) *fleet.AgentView {
	h.T.Helper()
	v, err := h.CreateIn(name, "Setup")
	require.NoError(h.T, err)
	require.Equal(h.T, fleet.StatusIdle, v.Status())
	return v
}

// CreateIn creates an agent of alice in the project. It returns the agent, or the error of the call.
func (h *Harness) CreateIn(name, project string) (*fleet.AgentView, error) {
	v, _, err := h.CreateAgent(h.Context(), service.CreateAgentRequest{Name: name, Project: project, Spec: "a spec"})
	return v, err
}

// MustCreate works like CreateIn, but fails the test if the call fails.
func (h *Harness) MustCreate(name, project string) {
	h.T.Helper()
	_, err := h.CreateIn(name, project)
	require.NoError(h.T, err)
}

// MustStop stops the agent.
func (h *Harness) MustStop(agent string) {
	h.T.Helper()
	_, _, err := h.StopAgent(h.Context(), agent, "")
	require.NoError(h.T, err)
}

// MustDelete deletes the agent, and returns the message of the answer.
func (h *Harness) MustDelete(agent string) (message string) {
	h.T.Helper()
	_, message, err := h.DeleteAgent(h.Context(), agent, false, "")
	require.NoError(h.T, err)
	return message
}

// Read returns what fn reads in the store.
func Read[T any](h *Harness, fn func(tx fleet.ReadTx) (T, error)) (value T) {
	h.T.Helper()
	require.NoError(h.T, h.Store.View(h.T.Context(), func(tx fleet.ReadTx) (err error) {
		value, err = fn(tx)
		return err
	}))
	return value
}

// Start starts a task of the agent and returns it.
func (h *Harness) Start(agent, prompt string) *fleet.Task {
	h.T.Helper()
	task, err := h.StartTask(h.Context(), service.StartTaskRequest{Agent: agent, Description: prompt})
	require.NoError(h.T, err)
	require.Equal(h.T, fleet.TaskRunning, task.Status)
	return task
}

// WaitTask waits for the task to end and returns it.
func (h *Harness) WaitTask(id string) *fleet.Task {
	h.T.Helper()
	for begun := time.Now(); ; {
		tasks, done, err := h.WaitTasks(h.Context(), []string{id}, service.WaitCondition{}, 50*time.Second)
		require.NoError(h.T, err)
		if done {
			return tasks[0]
		}
		require.Less(h.T, time.Since(begun), waittest.Limit, "task %s is %s", id, tasks[0].Status)
	}
}

// WaitStored waits until ok returns true. It calls ok at once and after each commit, so ok should depend only on the store.
func (h *Harness) WaitStored(ok func() bool) {
	h.T.Helper()
	signal, cancel := h.Store.Subscribe()
	defer cancel()
	waittest.UntilSignalled(h.T, signal, ok)
}

// WaitObserved waits until ok returns true. It calls ok at once and after each change of the state of places, so ok should
// depend only on that state.
func (h *Harness) WaitObserved(ok func() bool) {
	h.T.Helper()
	signal, cancel := h.State.Places.Subscribe()
	defer cancel()
	waittest.UntilSignalled(h.T, signal, ok)
}

// Problem returns the problem of the fleet's place with this index. It returns "" if the place has none.
func (h *Harness) Problem(place int) string { return h.Places(fleet.Principal{})[place].Problem }

// WaitAgent waits until ok returns true for the agent, and returns the agent.
func (h *Harness) WaitAgent(agent string, ok func(*fleet.AgentView) bool) (v *fleet.AgentView) {
	h.T.Helper()
	h.WaitStored(func() bool {
		var err error
		v, err = h.ShowAgent(h.Context(), agent)
		require.NoError(h.T, err)
		return ok(v)
	})
	return v
}

// WaitDeleted waits until the agent is deleted, and returns it.
func (h *Harness) WaitDeleted(uid string) (v *fleet.AgentView) {
	h.T.Helper()
	h.WaitStored(func() bool {
		views, _, err := h.AgentsByUID(h.Context(), []string{uid})
		require.NoError(h.T, err)
		v = views[0]
		return !v.DeletedAt.IsZero()
	})
	return v
}

// WaitQuestion waits until the task has an open question, and returns it.
func (h *Harness) WaitQuestion(taskID string) (q *fleet.Question) {
	h.T.Helper()
	h.WaitStored(func() bool {
		all, err := h.ListQuestions(h.Context(), service.ListQuestionsRequest{TaskID: taskID})
		require.NoError(h.T, err)
		if len(all.Questions) > 0 {
			q = all.Questions[0]
		}
		return q != nil
	})
	return q
}

// Output returns the task's output that is among the task's first 1000 events.
func (h *Harness) Output(id string) string {
	h.T.Helper()
	return strings.Join(h.TaskEvents(id, fleet.EventTaskOutput), "")
}

// TaskEvents returns the texts of those of the task's first 1000 events that have the type.
func (h *Harness) TaskEvents(id string, typ fleet.EventType) []string {
	h.T.Helper()
	return h.texts(service.WatchRequest{TaskID: id}, typ)
}

// Events returns the texts of those of the first service.MaxWatchEvents events that have the type.
func (h *Harness) Events(typ fleet.EventType) []string {
	h.T.Helper()
	return h.texts(service.WatchRequest{MaxEvents: service.MaxWatchEvents}, typ)
}

// texts returns the texts of the events of the type that an admin's Watch with the request returns.
func (h *Harness) texts(r service.WatchRequest, typ fleet.EventType) (texts []string) {
	h.T.Helper()
	err := h.Watch(AsAdmin(h.T.Context()), r, func(events []fleet.Event, _ string) error {
		for _, e := range events {
			if e.Type == typ {
				texts = append(texts, e.Text)
			}
		}
		return nil
	})
	require.NoError(h.T, err)
	return texts
}
