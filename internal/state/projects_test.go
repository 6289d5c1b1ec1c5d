package state_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/service"
	"fleet/internal/service/servicetest"
	"fleet/internal/state"
)

// TestProjectsOfAnotherServer checks that a project is looked up on another server only if that server exists and the project's
// place is bound to a machine.
func TestProjectsOfAnotherServer(t *testing.T) {
	t.Parallel()
	own := servicetest.SecondPlace(t, fake.Config{Traits: fleet.Traits{Name: fleet.PlaceOn("second", "here")}})
	h := servicetest.New(t, fake.Config{}, func(c *state.Config) { c.Replica = "here" }, own)
	for _, name := range []string{"here", "there"} {
		_, err := h.Store.RecordHeartbeat(t.Context(), fleet.Replica{Name: name, Machine: name}, true)
		require.NoError(t, err)
	}
	for project, reason := range map[string]fleet.Reason{
		"second@there/Setup": fleet.ReasonBackendUnavailable, "second@nowhere/Setup": fleet.ReasonProjectNotFound,
		"fake@there/Setup": fleet.ReasonProjectNotFound, "fake@here/Setup": fleet.ReasonProjectNotFound,
		"@there/Setup": fleet.ReasonProjectNotFound, "none@there/Setup": fleet.ReasonProjectNotFound,
	} {
		_, err := h.CreateIn("papi", project)
		require.Equal(t, reason, fleet.ReasonOf(err), "%s: %v", project, err)
	}
	_, err := h.CreateIn("papi", "SECOND@HERE/Setup")
	require.NoError(t, err)
}

// TestProjectsOfSeveralPlaces checks that calls must name the place of a project if two places have a project of that
// name.
func TestProjectsOfSeveralPlaces(t *testing.T) {
	t.Parallel()
	b := servicetest.SecondPlace(t, fake.Config{})
	h := servicetest.New(t, fake.Config{}, nil, b)
	projects, _, err := h.ListProjects(h.Context())
	require.NoError(t, err)
	var names []string
	for _, p := range projects {
		names = append(names, p.Name+" in "+p.Place)
	}
	require.Equal(t, []string{"DataOne in fake", "fake/Setup in fake", "second/Setup in second", "Web in second"}, names)

	_, err = h.CreateIn("papi", "setup")
	require.Equal(t, fleet.ReasonInvalidArgument, fleet.ReasonOf(err))
	require.ErrorContains(t, err, "fake/Setup, second/Setup")
	_, err = h.CreateIn("papi", "third/Setup")
	require.Equal(t, fleet.ReasonProjectNotFound, fleet.ReasonOf(err))
	require.ErrorContains(t, err, "DataOne, fake/Setup, second/Setup, Web")
	for name, project := range map[string]string{"papi": "fake/Setup", "sony": "Second/setup", "data": "dataone", "web": "web"} {
		_, err := h.CreateIn(name, project)
		require.NoError(t, err)
	}
	require.Len(t, h.World.Workspaces(), 2)
	require.Len(t, b.Workspaces(), 2)
	_, err = h.CreateIn("papi", "second/Setup")
	require.Equal(t, fleet.ReasonAgentExists, fleet.ReasonOf(err), "an owner's agents in different places must have different names")

	for filter, want := range map[string][]string{"": {"data", "papi", "sony", "web"}, "Setup": {"papi", "sony"}, "second/Setup": {"sony"}, "fake/setup": {"papi"}} {
		l, err := h.ListAgents(h.Context(), fleet.ListAgentsRequest{Project: filter})
		require.NoError(t, err)
		var got []string
		for _, v := range l.Agents {
			got = append(got, v.Name)
		}
		require.Equal(t, want, got, filter)
	}
	require.Equal(t, fleet.TaskCompleted, h.WaitTask(h.Start("papi", "done one").ID).Status)
	require.Equal(t, fleet.TaskCompleted, h.WaitTask(h.Start("sony", "done two").ID).Status)
	tasks, err := h.ListTasks(h.Context(), service.ListTasksRequest{Project: "second/Setup"})
	require.NoError(t, err)
	require.Equal(t, 1, tasks.Total)
	require.Equal(t, "sony", tasks.Tasks[0].AgentName)
}
