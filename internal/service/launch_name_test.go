package service_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/service"
	"fleet/internal/service/servicetest"
)

// TestLaunchNames checks that a launched agent of a project gets a name that every host accepts for a workspace.
func TestLaunchNames(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{}, nil)
	for name, want := range map[string]string{
		"":                    `^[0-9a-f]{20}$`,
		"web":                 `^web-[0-9a-f]{12}$`,
		"code_review-of-many": `^code-re-[0-9a-f]{12}$`,
		"a--b___c":            `^a-b-c-[0-9a-f]{12}$`,
		"github_actions":      `^github-[0-9a-f]{12}$`,
		"größe":               `^gr-e-[0-9a-f]{12}$`,
		"__":                  `^[0-9a-f]{20}$`,
	} {
		v, err := h.Launch(h.Context(), service.LaunchRequest{Method: "Test", Toolset: fleet.ToolsetSubagents, Project: "Setup", Spec: "x", Name: name, Prompt: "done", OneTask: true})
		require.NoError(t, err)
		require.Regexp(t, want, v.Name)
		require.NoError(t, fleet.ValidateAgentName(v.Name))
	}
}
