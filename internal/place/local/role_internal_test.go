package local

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/runner/acp"
	"fleet/internal/runner/sandbox"
)

// TestDefaultRoles checks that agents edit files without asking only in confined projects without configured roles, and only with
// drivers that ask.
func TestDefaultRoles(t *testing.T) {
	t.Parallel()
	confinedMode := ""
	if sandbox.Available() == nil {
		confinedMode = acp.AcceptEdits
	}
	for _, c := range []struct {
		project Project
		want    string
	}{
		{Project{Driver: "claude"}, confinedMode},
		{Project{Driver: "acp", Command: []string{"opencode", "acp"}}, confinedMode},
		{Project{Driver: "claude", Sandbox: sandbox.None}, ""},
		{Project{Driver: "shell"}, ""},
		{Project{Driver: "claude", Roles: []Role{{Name: "coder"}}}, ""},
	} {
		c.project.Name = "webshop"
		p, err := c.project.validate()
		require.NoError(t, err)
		require.NotEmpty(t, p.Roles)
		for _, r := range p.Roles {
			require.Equal(t, c.want, r.PermissionMode, "%+v", c.project)
		}
	}
}

// TestDefaultRole checks which of the configured roles is the default.
func TestDefaultRole(t *testing.T) {
	t.Parallel()
	for want, roles := range map[string][]Role{
		"manager":  {{Name: "manager"}, {Name: "operator"}},
		"coder":    {{Name: "manager"}, {Name: "coder"}},
		"operator": {{Name: "coder"}, {Name: "operator", Default: true}},
	} {
		p, err := Project{Name: "webshop", Driver: "shell", Roles: roles}.validate()
		require.NoError(t, err)
		for _, r := range p.Roles {
			require.Equal(t, r.Name == want, r.Default, "%s of %v", r.Name, roles)
		}
	}
}
