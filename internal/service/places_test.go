package service_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/service"
	"fleet/internal/state"
	"fleet/internal/waittest"
)

// another is a place of the fleet besides the world. It has the project Setup too, and one of its own.
func another(t *testing.T, c fake.Config) *fake.Place {
	t.Helper()
	c.Traits.Name = "second"
	c.Projects = []fake.Project{{Project: fleet.Project{Name: "Setup"}}, {Project: fleet.Project{Name: "Web"}}}
	b := fake.New(c)
	t.Cleanup(b.Destroy)
	return b
}

// withPlaces starts a fleet in the world and in more places.
func withPlaces(t *testing.T, world fake.Config, more ...fleet.Place) *harness {
	t.Helper()
	h := newHarness(t, world, nil)
	h.more = more
	h.restart()
	return h
}

func (h *harness) createIn(name, project string) (*fleet.AgentView, error) {
	v, _, err := h.CreateAgent(h.ctx(), service.CreateAgentRequest{Name: name, Project: project, Spec: "a spec"})
	return v, err
}

func (h *harness) mustCreate(name, project string) {
	h.t.Helper()
	_, err := h.createIn(name, project)
	require.NoError(h.t, err)
}

// TestProjectsOfSeveralPlaces has two places with a project of one name: it has to be said which is meant.
func TestProjectsOfSeveralPlaces(t *testing.T) {
	t.Parallel()
	b := another(t, fake.Config{})
	h := withPlaces(t, fake.Config{}, b)
	projects, _, err := h.ListProjects(h.ctx())
	require.NoError(t, err)
	var names []string
	for _, p := range projects {
		names = append(names, p.Name+" in "+p.Place)
	}
	require.Equal(t, []string{"DataOne in fake", "fake/Setup in fake", "second/Setup in second", "Web in second"}, names)

	_, err = h.createIn("papi", "setup")
	require.Equal(t, fleet.ReasonInvalidArgument, reason(err))
	require.ErrorContains(t, err, "fake/Setup, second/Setup")
	_, err = h.createIn("papi", "third/Setup")
	require.Equal(t, fleet.ReasonProjectNotFound, reason(err))
	require.ErrorContains(t, err, "DataOne, fake/Setup, second/Setup, Web")
	for name, project := range map[string]string{"papi": "fake/Setup", "sony": "Second/setup", "data": "dataone", "web": "web"} {
		_, err := h.createIn(name, project)
		require.NoError(t, err)
	}
	require.Len(t, h.world.Workspaces(), 2)
	require.Len(t, b.Workspaces(), 2)
	_, err = h.createIn("papi", "second/Setup")
	require.Equal(t, fleet.ReasonAgentExists, reason(err), "names are the owner's, whatever the place")

	for filter, want := range map[string][]string{"": {"data", "papi", "sony", "web"}, "Setup": {"papi", "sony"}, "second/Setup": {"sony"}, "fake/setup": {"papi"}} {
		l, err := h.ListAgents(h.ctx(), fleet.ListAgentsRequest{Project: filter})
		require.NoError(t, err)
		var got []string
		for _, v := range l.Agents {
			got = append(got, v.Name)
		}
		require.Equal(t, want, got, filter)
	}
	require.Equal(t, fleet.TaskCompleted, h.end(h.start("papi", "done one").ID).Status)
	require.Equal(t, fleet.TaskCompleted, h.end(h.start("sony", "done two").ID).Status)
	tasks, err := h.ListTasks(h.ctx(), service.ListTasksRequest{Project: "second/Setup"})
	require.NoError(t, err)
	require.Equal(t, 1, tasks.Total)
	require.Equal(t, "sony", tasks.Tasks[0].AgentName)
}

// TestOnePlaceIsDown has one of two places not answer: what concerns the other goes on, and all agents are shown.
func TestOnePlaceIsDown(t *testing.T) {
	t.Parallel()
	b := another(t, fake.Config{Traits: fleet.Traits{Adopts: true}, Workspaces: []fleet.Workspace{
		{ID: "w-old", Name: "old", Owner: "alice", Project: "Web", Role: "coder", State: fleet.StateRunning},
	}})
	b.Fail(fake.List, 1<<30, fleet.Errorf(fleet.ReasonPermissionDenied, "the token is not accepted"))
	h := withPlaces(t, fake.Config{}, b)
	begun := time.Now()
	h.mustCreate("papi", "fake/Setup")
	require.Less(t, time.Since(begun), 4*time.Second, "nobody waits for the place that is down")
	require.Equal(t, fleet.TaskCompleted, h.end(h.start("papi", "done").ID).Status)

	l, err := h.ListAgents(h.ctx(), fleet.ListAgentsRequest{})
	require.NoError(t, err)
	require.Len(t, l.Agents, 1)
	require.Equal(t, "fake", l.Places[0].Name)
	require.Empty(t, l.Places[0].Problem)
	require.False(t, l.Places[0].ObservedAt.IsZero())
	require.Equal(t, fleet.PlaceState{Name: "second", Problem: "the token is not accepted"}, l.Places[1])
	_, err = h.ShowAgent(h.ctx(), "old")
	require.Equal(t, fleet.ReasonBackendUnavailable, reason(err), "nobody knows yet that it is not there")
	_, err = h.createIn("web", "Web")
	require.Equal(t, fleet.ReasonBackendUnavailable, reason(err))
	health := h.Health(t.Context())
	require.True(t, health.Ready)
	require.Len(t, health.Degraded, 1)
	require.Equal(t, "second", health.Degraded[0].Part)

	b.Fail(fake.List, 0, nil)
	waittest.Until(t, notAnnounced, func() bool {
		v, err := h.ShowAgent(h.ctx(), "old")
		return err == nil && v.Place == "second" && v.Status() == fleet.StatusIdle && len(h.Health(t.Context()).Degraded) == 0
	})
	require.Equal(t, fleet.TaskCompleted, h.end(h.start("old", "done").ID).Status)

	b.Fail(fake.List, 1<<30, nil)
	waittest.Until(t, notAnnounced, func() bool {
		_, err := h.StartTask(h.ctx(), service.StartTaskRequest{Agent: "old", Description: "done"})
		return reason(err) == fleet.ReasonBackendUnavailable
	})
	require.Equal(t, fleet.TaskCompleted, h.end(h.start("papi", "done").ID).Status)
	l, err = h.ListAgents(h.ctx(), fleet.ListAgentsRequest{})
	require.NoError(t, err)
	require.Len(t, l.Agents, 2, "agents of a place that is down are shown")
}

// TestOnePlaceHangs has one of two places take a call and not answer: nobody who wants something of the other waits for long.
func TestOnePlaceHangs(t *testing.T) {
	t.Parallel()
	var hangs atomic.Bool
	hangs.Store(true)
	b := another(t, fake.Config{Traits: fleet.Traits{Adopts: true}, Before: func(ctx context.Context, c fake.Call) error {
		if hangs.Load() {
			return hang(ctx)
		}
		return nil
	}})
	h := newHarness(t, fake.Config{}, func(c *state.Config) { c.CallTimeout = 300 * time.Millisecond })
	h.more = []fleet.Place{b}
	h.restart()
	begun := time.Now()
	h.mustCreate("papi", "DataOne")
	h.mustCreate("sony", "DataOne")
	require.Less(t, time.Since(begun), firstListing, "each place is asked at the same time, and not again at once")
	_, err := h.createIn("web", "Web")
	require.Equal(t, fleet.ReasonBackendUnavailable, reason(err))
	_, places, err := h.ListProjects(h.ctx())
	require.NoError(t, err)
	require.Contains(t, places[1].Problem, "did not")
	hangs.Store(false)
	waittest.Until(t, notAnnounced, func() bool {
		_, err := h.createIn("web", "Web")
		return err == nil
	})
}

// firstListing is how long calls wait for the first listing of a place.
const firstListing = 5 * time.Second

// TestNameInTwoPlaces has a workspace at its host whose name an agent of another place has: it is said that it is not shown.
func TestNameInTwoPlaces(t *testing.T) {
	t.Parallel()
	b := another(t, fake.Config{Traits: fleet.Traits{Adopts: true}})
	h := withPlaces(t, fake.Config{}, b)
	h.mustCreate("papi", "fake/Setup")
	b.AddWorkspace(fleet.Workspace{Name: "papi", Owner: "alice", Project: "Web"})
	problem := func() string { return h.Places(fleet.Principal{})[1].Problem }
	waittest.Until(t, notAnnounced, func() bool { return strings.Contains(problem(), "1 of its workspaces are not shown") })
	_, _, err := h.DeleteAgent(h.ctx(), "papi", "")
	require.NoError(t, err)
	waittest.Until(t, notAnnounced, func() bool {
		v, err := h.ShowAgent(h.ctx(), "papi")
		return err == nil && v.Place == "second"
	})
	waittest.Until(t, notAnnounced, func() bool { return problem() == "" })
}

// TestPlaceIsNotConfigured takes a place out of the configuration: its agents are shown with the reason, and refuse.
func TestPlaceIsNotConfigured(t *testing.T) {
	t.Parallel()
	b := another(t, fake.Config{})
	h := withPlaces(t, fake.Config{}, b)
	h.mustCreate("web", "Web")
	h.more = nil
	h.restart()
	l, err := h.ListAgents(h.ctx(), fleet.ListAgentsRequest{})
	require.NoError(t, err)
	require.Len(t, l.Agents, 1)
	require.Equal(t, "second", l.Agents[0].Place)
	require.Len(t, l.Places, 2)
	require.Contains(t, l.Places[1].Problem, `the place "second" is not configured`)
	l, err = h.ListAgents(as(t.Context(), "bob"), fleet.ListAgentsRequest{})
	require.NoError(t, err)
	require.Len(t, l.Places, 1, "whose agents live where is not everybody's business")
	_, err = h.StartTask(h.ctx(), service.StartTaskRequest{Agent: "web", Description: "done"})
	require.Equal(t, fleet.ReasonBackendUnavailable, reason(err))

	h.more = []fleet.Place{b}
	h.restart()
	require.Equal(t, fleet.TaskCompleted, h.end(h.start("web", "done").ID).Status)
}
