package cli

import (
	"testing"

	"github.com/stretchr/testify/require"

	fleetv1 "fleet/gen/fleet/v1"
)

// TestNamesForOtherCommands checks that a name in a hint, in a completion or in the output of -q selects the same agent when it is
// used again. A bare name means the caller's own agent first.
func TestNamesForOtherCommands(t *testing.T) {
	t.Parallel()
	s := newStub(t)
	for key, owner := range map[string]string{"papi": "bob", "papi@alice": "alice", "sony": "local"} {
		s.agents[key] = &fleetv1.Agent{Name: key[:4], Owner: owner, Status: fleetv1.Agent_idle, Outdated: new(true)}
	}
	server, _ := s.listen(t, "")
	run := func(token string, args ...string) string {
		c := newCommand(server)
		c.env["FLEET_TOKEN"] = token
		require.Equal(t, ExitOK, c.run(args...), c.stderr.String())
		return c.stdout.String() + c.stderr.String()
	}
	require.Equal(t, "papi@bob\npapi@alice\nsony@local\n", run("secret", "agent", "list", "-q"))
	require.Equal(t, "papi@bob\npapi@alice\nsony\n", run("", "agent", "list", "-q"), "without a token, the caller is local")
	require.Equal(t, "papi@alice\n", run("secret", "agent", "show", "papi@alice", "-q"))
	require.Contains(t, run("secret", "agent", "show", "papi@alice"), `"fleet agent restart papi@alice --update"`)
	require.Contains(t, run("secret", "agent", "start", "papi@alice"), "fleet task run papi@alice ")
	require.Contains(t, run("secret", "__complete", "agent", "show", ""), "papi@bob\tidle\npapi@alice\tidle\nsony\tidle\n")
}
