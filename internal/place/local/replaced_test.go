package local_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/local"
	"fleet/internal/runner/sandbox"
	"fleet/internal/runner/shim"
	"fleet/internal/waittest"
)

// TestReplacedFiles runs an agent that replaces a file that Fleet reads: a file of the agent or of its run. Every such
// file is replaced with a pipe. The most important files are also replaced with a link to a device, a directory, and a
// file with invalid content. The task must end, and all calls for the agent must return.
func TestReplacedFiles(t *testing.T) {
	t.Parallel()
	for how, script := range map[string]string{
		"pipe":      `rm -rf "$f"; mkfifo "$f"`,
		"device":    `rm -rf "$f"; ln -s /dev/zero "$f"`,
		"directory": `rm -rf "$f"; mkdir "$f"; touch "$f/x"`,
		"garbage":   `rm -rf "$f"; echo "{" >"$f"`,
	} {
		for _, file := range []string{
			"agent.json", "active", "session", "stopped", "log", "runs", "work/.git", "run/run.json", "run/claim", "run/child", "run/control",
			"run/output", "run/stderr", "run/exit.json", "run/format.json", "run/files/summary", "run/files/payload", "run/shim.log", "run/output.99",
		} {
			if how != "pipe" && !slices.Contains([]string{"agent.json", "runs", "run/run.json", "run/claim", "run/exit.json", "run/output"}, file) {
				continue
			}
			t.Run(how+" "+file, func(t *testing.T) {
				t.Parallel()
				// The sandbox would prevent this, so the test runs without it: Fleet must not depend on the sandbox.
				w := newTestPlace(t, func(c *local.Config) { c.Sandbox = sandbox.None })
				a := w.provisionIn("shell")
				marker := filepath.Join(t.TempDir(), "replaced")
				path := filepath.Join(w.home(a), file)
				if name, own := strings.CutPrefix(file, "run/"); own {
					path = "$FLEET_RUN_DIR/../" + name
				}
				r := w.start(a, fmt.Sprintf(`until [ -e $FLEET_RUN_DIR/../child ]; do :; done; f=%s; echo begun; %s; touch %s; sleep 3600`, path, script, marker))
				for _, err := os.Stat(marker); err != nil; _, err = os.Stat(marker) {
					require.NoError(t, w.ctx.Err())
					runtime.Gosched()
				}
				_, err := w.List(w.ctx)
				require.NoError(t, err)
				_, err = w.Inspect(w.ctx, a)
				require.NoError(t, err)
				_, _, _ = w.Log(w.ctx, a, 10)
				require.NoError(t, w.Connect(a).Interrupt(w.ctx, r, true))
				if o, err := w.Connect(a).Follow(w.ctx, r, "", func(fleet.Output) error { return nil }); err != nil {
					requireReason(t, err, fleet.ReasonTaskNotFound)
				} else {
					require.NotEqual(t, fleet.TaskCompleted, o.Status)
				}
				require.NoError(t, w.Stop(w.ctx, a))
				w.remove(a)
			})
		}
	}
}

// TestSuspendedSupervisor checks that a run whose supervisor is suspended ends at its time limit. All processes of the
// run must end too, even processes that cannot be recognised by their environment.
func TestSuspendedSupervisor(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only on Linux can the supervisor adopt orphaned processes")
	}
	waittest.WithGrowingLimit(t, 500*time.Millisecond, func(limit time.Duration) (inTime bool) {
		w := newTestPlace(t, func(c *local.Config) {
			c.Projects = []local.Project{{Name: "shell", Timeout: limit}}
		})
		a := w.provisionIn("shell")
		script, mark := markScript(`( env -i setsid bash -c 'echo pid $$; exec sleep 3600' & ); sleep 3600`)
		r := w.start(a, script)
		if !w.followPrints(a, r, "pid ") || !suspendProcess(supervisorPID(t, shim.Run(w.runDir(a, r)))) {
			return false
		}
		_, o := w.follow(a, r)
		require.Equal(t, fleet.TaskFailed, o.Status)
		require.Equal(t, fmt.Sprintf("it ran longer than its time limit of %s", limit), o.Reason)
		requireGone(t, mark)
		return true
	})
}
