package local_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/local"
	"fleet/internal/runner/sandbox"
)

// serverState is printed by the server before it is killed: its agent and run, and the output that it has read so far.
type serverState struct {
	Agent  fleet.Agent
	Run    fleet.Run
	Cursor string // of the output after Text
	Text   string
}

// openServer returns a place for a server that a test kills.
func openServer(dir string, projects []local.Project) *local.Place {
	exe, err := sandbox.Executable()
	if err != nil {
		panic(err)
	}
	p, err := local.New(local.Config{Dir: dir, Program: exe, Projects: projects})
	if err != nil {
		panic(err)
	}
	return p
}

// serveUntilKilled starts a server that creates an agent, dispatches and follows a run, and then waits to be killed.
func serveUntilKilled(dir string) {
	p := openServer(dir, local.Discover(func(string) (string, error) { return "", exec.ErrNotFound }))
	ctx := context.Background()
	state := serverState{
		Agent: fleet.Agent{UID: "killed-server", Name: "papi", Project: "shell", Role: "coder"},
		Run:   newRun(`for i in $(seq 2000); do echo line $i; done; read -r go <"$FLEET_MESSAGES"; for i in $(seq 2001 3000); do echo line $i; done`),
	}
	if _, err := p.Provision(ctx, state.Agent); err != nil {
		panic(err)
	}
	if err := p.Connect(state.Agent).Dispatch(ctx, state.Run); err != nil {
		panic(err)
	}
	_, err := p.Connect(state.Agent).Follow(ctx, state.Run, "", func(o fleet.Output) error {
		state.Cursor, state.Text = o.Cursor, state.Text+o.Text
		if err := json.NewEncoder(os.Stdout).Encode(state); err != nil {
			panic(err)
		}
		select {} // the sink never returns, so the server waits to be killed
	})
	panic(fmt.Sprint("the run has ended: ", err))
}

// TestTemporaryFilesOfKilledServer checks that a server removes the temporary files of a killed server.
func TestTemporaryFilesOfKilledServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	left := filepath.Join(dir, "tmp", "fleet-1", "git-1")
	require.NoError(t, os.MkdirAll(left, 0o700))
	p := newPlace(t, dir, nil)
	require.NoDirExists(t, left)
	require.NoError(t, p.Close())
	entries, err := os.ReadDir(filepath.Join(dir, "tmp"))
	require.NoError(t, err)
	require.Empty(t, entries)
}

// TestServerKilled kills a server during a run. The next server takes over, and no output is lost or repeated.
func TestServerKilled(t *testing.T) {
	t.Parallel()
	w := newTestPlace(t, nil)
	cmd := exec.Command(testBinary(t), "server", w.dir)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	var killed serverState
	require.NoError(t, json.NewDecoder(out).Decode(&killed))
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()

	require.NoError(t, w.Connect(killed.Agent).Send(w.ctx, killed.Run, "go", "go on")) // lets the run continue
	rest, _ := w.outputs(killed.Agent, killed.Run, killed.Cursor)
	var want strings.Builder
	for i := range 3000 {
		want.WriteString("line " + strconv.Itoa(i+1) + "\n")
	}
	require.Equal(t, want.String(), killed.Text+outputText(rest))
	whole, o := w.follow(killed.Agent, killed.Run)
	require.Equal(t, want.String(), whole)
	require.Equal(t, fleet.TaskCompleted, o.Status)
	require.Equal(t, "line 3000", o.Summary)
	require.NoError(t, w.Connect(killed.Agent).Dispatch(w.ctx, killed.Run), "a repeated dispatch must succeed")
	again, _ := w.follow(killed.Agent, killed.Run)
	require.Equal(t, whole, again, "a repeated dispatch must not start the run again")
}
