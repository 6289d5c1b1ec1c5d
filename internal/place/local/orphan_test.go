package local_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/waittest"
)

// TestNoProcessIsLeft checks that every process that a program leaves running ends with the run. newTestPlace does not find processes
// with an empty environment in other directories, so this test looks for a mark in the command lines.
func TestNoProcessIsLeft(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only on Linux can the shim adopt orphaned processes")
	}
	for name, script := range map[string]string{
		"in the background":         `sleep 3600 & echo done`,
		"nohup":                     `nohup sleep 3600 >/dev/null 2>&1 & echo done`,
		"a session of its own":      `setsid sleep 3600 & sleep 0.05; echo done`,
		"a daemon, forked twice":    `( setsid bash -c 'echo pid $$; exec sleep 3600' >"$FLEET_RUN_DIR/daemon" 2>&1 </dev/null & ) ; until grep -q pid "$FLEET_RUN_DIR/daemon"; do :; done; cat "$FLEET_RUN_DIR/daemon"; echo done`,
		"with an empty environment": `( env -i setsid bash -c 'echo pid $$; exec sleep 3600' >"$FLEET_RUN_DIR/daemon" </dev/null & ) ; until grep -q pid "$FLEET_RUN_DIR/daemon"; do :; done; cat "$FLEET_RUN_DIR/daemon"; echo done`,
		"ignores signals":           `bash -c 'trap "" TERM HUP INT; while true; do sleep 0.05; done' 3600 & until [ -n "$(jobs -r)" ]; do :; done; sleep 0.1; echo done`,
		"holding the output":        `( setsid sleep 3600 & ); echo done`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTestPlace(t, nil)
			script, mark := markScript(script)
			require.True(t, strings.HasSuffix(w.mustRun(w.provisionIn("shell"), script), "done"))
			requireGone(t, mark)
		})
	}
}

// markScript replaces "3600" in the script by a unique mark, and returns the script and the mark. So the mark is in the command line
// of each program that sleeps for an hour. Tests cannot find programs of a run by the pids that the programs print, because the run
// may have its own pid namespace.
func markScript(script string) (markedScript, mark string) {
	mark = fmt.Sprintf("3600.%d%04d", os.Getpid(), marks.Add(1))
	return strings.ReplaceAll(script, "3600", mark), mark
}

var marks atomic.Int64

// requireGone fails the test if a process with the mark in its command line still runs.
func requireGone(t *testing.T, mark string) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	require.NoError(t, err)
	for _, e := range entries {
		line, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline")) // a zombie has none
		require.NotContains(t, string(line)+"\x00", mark+"\x00", "process %s still runs", e.Name())
	}
}

// TestForkStorm checks that a kill ends a run whose processes fork as fast as they can.
func TestForkStorm(t *testing.T) {
	t.Parallel()
	w, a := newShellPlace(t)
	waittest.Until(t, "a supervisor that is too slow to answer is killed, and its run is lost", func() bool {
		// 40 process families fork as fast as they can, each in its own process group.
		r := w.start(a, `
			f() { local n=$1; while [ $n -gt 0 ]; do ( exec sleep 0.02 ); n=$((n-1)); done; }
			for i in $(seq 40); do ( set -m; trap '' TERM; while true; do f 3 & wait; done ) & done
			echo storm; wait`)
		w.followUntil(a, r, "storm")
		w.kill(a, r)
		_, o := w.follow(a, r)
		require.Empty(t, runProcessesIn(t, w.dir))
		if o.ReasonCode == fleet.CodeRunnerLost {
			return false
		}
		require.Equal(t, fleet.TaskStopped, o.Status)
		return true
	})
}

// TestProcessesEndWithRun checks that a stop, a kill or a deletion also ends programs that try to survive it.
func TestProcessesEndWithRun(t *testing.T) {
	t.Parallel()
	requireSandbox(t)
	for name, script := range map[string]string{
		"a session of its own":       `setsid bash -c 'echo pid $$ >>pids; exec sleep 3600' &`,
		"forked twice":               `( ( setsid bash -c 'echo pid $$ >>pids; exec sleep 3600' & ) & )`,
		"a clean environment":        `( env -i setsid bash -c 'cd /; echo pid $$; exec sleep 3600' >>pids 2>/dev/null </dev/null & )`,
		"it suspends its supervisor": `( setsid bash -c 'echo pid $$ >>pids; exec sleep 3600' & ); kill -STOP $PPID`,
		"it kills its supervisor": `( env -i setsid bash -c 'echo pid $$; trap "" TERM INT HUP; exec sleep 3600' >>pids & ); kill -KILL $PPID; env -i kill -KILL $PPID
			P=$PPID; env -i bash -c "for i in 1 2 3; do kill -KILL $P; kill -STOP $P; done"`,
		"it ignores signals and forks": `f() { trap '' TERM INT HUP; echo pid $BASHPID >>pids; sleep 0.2; f & sleep 0.1; }; f &`,
	} {
		for ending, end := range map[string]func(*testPlace, fleet.Agent, fleet.Run){
			"stop":   (*testPlace).interrupt,
			"kill":   (*testPlace).kill,
			"delete": func(*testPlace, fleet.Agent, fleet.Run) {},
		} {
			t.Run(name+", "+ending, func(t *testing.T) {
				t.Parallel()
				w, a := newShellPlace(t)
				script, mark := markScript(script)
				r := w.startUntil(a, "set +e; "+script+"\nuntil grep -q pid pids; do :; done; echo begun; sleep 3600", "begun")
				end(w, a, r)
				if ending != "delete" {
					_, o := w.follow(a, r)
					require.Equal(t, fleet.TaskStopped, o.Status, "%+v", o)
				}
				w.remove(a)
				requireGone(t, mark)
				require.Empty(t, processesIn(t, w.dir))
			})
		}
	}
}
