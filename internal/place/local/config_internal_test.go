package local

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/runner/acp"
	"fleet/internal/runner/sandbox"
)

// TestDefaultRoles checks in which projects the agents may change files if the project has no configured roles.
func TestDefaultRoles(t *testing.T) {
	t.Parallel()
	confined := ""
	if sandbox.Available() == nil {
		confined = acp.AcceptEdits
	}
	for _, c := range []struct {
		project Project
		want    string
	}{
		{Project{Driver: "claude"}, confined},
		{Project{Driver: "acp", Command: []string{"opencode", "acp"}}, confined},
		{Project{Driver: "claude", Sandbox: sandbox.None}, ""},
		{Project{Driver: "shell"}, ""},
		{Project{Driver: "claude", Roles: []Role{{Name: "coder"}}}, ""},
	} {
		c.project.Name = "webshop"
		p, err := c.project.validate()
		require.NoError(t, err)
		for _, r := range p.Roles {
			require.Equal(t, c.want, r.PermissionMode, "%+v", c.project)
		}
	}
}
