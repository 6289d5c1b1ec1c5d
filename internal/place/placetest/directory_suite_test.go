package placetest_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/placetest"
	"fleet/internal/runner"
	"fleet/internal/runner/sandbox"
)

// TestMain lets the test binary also act as the supervisor of runs.
func TestMain(m *testing.M) {
	if code, ran := runner.Main(os.Args[1:]); ran {
		os.Exit(code)
	}
	_ = os.Setenv("GORACE", "atexit_sleep_ms=0") // lets supervisors end at once under the race detector
	os.Exit(m.Run())
}

// TestBrokenRecord checks that List shows all agents if the record of one agent cannot be read.
func TestBrokenRecord(t *testing.T) {
	d, err := newDirectory(t.TempDir(), "")
	require.NoError(t, err)
	broken, intact := fleet.Agent{UID: "1", Name: "ada", Project: "scripts"}, fleet.Agent{UID: "2", Name: "otto", Project: "scripts"}
	for _, a := range []fleet.Agent{broken, intact} {
		_, err := d.Provision(t.Context(), a)
		require.NoError(t, err)
	}
	require.NoError(t, os.WriteFile(d.path(broken, "agent.json"), []byte("{"), 0o600))
	all, err := d.List(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.Equal(t, fleet.StateUnhealthy, all[0].State)
	require.NotEmpty(t, all[0].Reason)
	require.Equal(t, fleet.StateRunning, all[1].State)
	_, err = d.Delete(t.Context(), broken)
	require.NoError(t, err)
	require.NoError(t, d.Close())
}

// TestDirectory runs the suite on the example of docs/extend/place.md. The prompts leave out the features that the place does not have.
func TestDirectory(t *testing.T) {
	open := func(t *testing.T, root string) fleet.Place {
		supervisor, err := sandbox.Executable()
		require.NoError(t, err)
		d, err := newDirectory(root, supervisor)
		require.NoError(t, err)
		return d
	}
	placetest.Run(t, placetest.Harness{
		New:     func(t *testing.T) fleet.Place { return open(t, t.TempDir()) },
		Reopen:  func(t *testing.T, p fleet.Place) fleet.Place { return open(t, p.(*directory).root) },
		Project: "scripts",
		Role:    "worker",
		Prompts: placetest.Prompts{
			Says:    placetest.Prompt{Text: "echo first; echo second; echo all well", Lines: []string{"first", "second"}, Summary: "all well"},
			Works:   placetest.Prompt{Text: "echo at work; sleep 3600", Lines: []string{"at work"}},
			Fails:   placetest.Prompt{Text: "echo no compiler >&2; exit 3", Reason: "exit code 3: no compiler"},
			Payload: placetest.Prompt{Text: `printf 'x: 1' >"$FLEET_PAYLOAD"; echo done`, Payload: []byte("x: 1")},
			Listens: placetest.Prompt{Text: `echo I listen; for i in 1 2; do read -r m <"$FLEET_MESSAGES"; printf '%s\n' "$m"; done`, Lines: []string{"I listen"}},
		},
	})
}
