package reconcile_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/service"
	"fleet/internal/service/servicetest"
)

// TestRefusedAgent creates an agent whose host refuses the workspace. It checks the error, which a repeated request gets
// too, and that the agent still exists only if a retry could succeed.
func TestRefusedAgent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		refusal error
		reason  fleet.Reason
		field   string
		exists  bool // the agent still exists after the refusal
	}{
		"its name is taken":     {fleet.Errorf(fleet.ReasonAgentExists, "it is taken").With("field", "name"), fleet.ReasonAgentExists, "", false},
		"a value is not good":   {fleet.InvalidField("spec", "it is too long"), fleet.ReasonInvalidArgument, "spec", false},
		"it cannot be made now": {fleet.Errorf(fleet.ReasonProvisioningFailed, "no room"), fleet.ReasonProvisioningFailed, "", true},
		"it is not permitted":   {fleet.Errorf(fleet.ReasonPermissionDenied, "not you"), fleet.ReasonProvisioningFailed, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := servicetest.New(t, fake.Config{}, nil)
			h.FakePlace.Fail(fake.Provision, 1, c.refusal)
			r := service.CreateAgentRequest{Name: "papi", Project: "Setup", Spec: "a spec", RequestID: "one"}
			for range 2 {
				_, _, err := h.CreateAgent(h.Context(), r)
				require.Equal(t, c.reason, fleet.ReasonOf(err), "%v", err)
				require.ErrorContains(t, err, fleet.PublicMessage(c.refusal))
				e := err.(*fleet.Error) //nolint:errorlint // an error with a reason is a *fleet.Error
				require.Equal(t, c.field, e.Field)
				require.Equal(t, "papi", e.Metadata["agent_name"])
			}
			require.Equal(t, 1, h.FakePlace.Calls(fake.Provision))
			_, err := h.ShowAgent(h.Context(), "papi")
			if c.exists {
				require.NoError(t, err)
				return
			}
			require.Equal(t, fleet.ReasonAgentNotFound, fleet.ReasonOf(err))
			require.Len(t, h.Events(fleet.EventAgentDeleted), 1)
			h.Create("papi")
		})
	}
}

// TestRefusedLaunch launches an agent with a task, and the host refuses the workspace. It checks that the task fails with
// the reason of the host.
func TestRefusedLaunch(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{}, nil)
	h.FakePlace.Fail(fake.Provision, 1, fleet.Errorf(fleet.ReasonAgentExists, "it is taken"))
	v, err := h.Launch(h.Context(), service.LaunchRequest{Method: "Run", Toolset: fleet.ToolsetSubagents, Project: "Setup", Prompt: "done"})
	require.NoError(t, err)
	task := h.WaitTask(v.Task.ID)
	require.Equal(t, fleet.TaskFailed, task.Status)
	require.Equal(t, "its agent was not created: it is taken", task.Reason)
}

// TestRefusedTask checks that a task that its host refuses fails with the host's code.
func TestRefusedTask(t *testing.T) {
	t.Parallel()
	h := servicetest.NewWithPapi(t, fake.Config{}, nil)
	h.FakePlace.Fail(fake.Dispatch, 1, fleet.Errorf(fleet.ReasonProvisioningFailed, "claude was not found").WithReasonCode(fleet.CodeProgramMissing))
	task := h.WaitTask(h.Start("papi", "done").ID)
	require.Equal(t, fleet.TaskFailed, task.Status)
	require.Equal(t, "the agent did not accept the task: claude was not found", task.Reason)
	require.Equal(t, fleet.CodeProgramMissing, task.ReasonCode)
}
