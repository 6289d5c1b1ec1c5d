package userdir

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestBelow checks that a user without a home directory has no default directories, instead of directories of the system.
func TestBelow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ home, base, want string }{
		{"/home/alice", "/home/alice/.local/share", "/home/alice/.local/share/fleet"},
		{"/", "/.local/share", ""}, // HOME is not set
		{"/", "/.config", ""},
		{"/", "/srv/config", "/srv/config/fleet"}, // XDG_CONFIG_HOME is set
		{"home", "home/.config", ""},
	} {
		require.Equal(t, c.want, below(c.home, c.base), "%+v", c)
	}
}
