package local_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/local"
	"fleet/internal/runner/sandbox"
)

// TestReplacedFiles runs agents, each of which replaces a file that Fleet reads: a file of the agent or of its run. Each of these
// files is replaced with a pipe. The most important files are also replaced with a link to a device, with a directory, and with a
// file with invalid content. The task must end, and all calls for the agent must return.
func TestReplacedFiles(t *testing.T) {
	t.Parallel()
	for replacement, script := range map[string]string{
		"pipe":      `rm -rf "$f"; mkfifo "$f"`,
		"device":    `rm -rf "$f"; ln -s /dev/zero "$f"`,
		"directory": `rm -rf "$f"; mkdir "$f"; touch "$f/x"`,
		"garbage":   `rm -rf "$f"; echo "{" >"$f"`,
	} {
		for _, file := range []string{
			"agent.json", "active", "session", "stopped", "log", "runs", "work/.git", "run/run.json", "run/claim", "run/child", "run/control",
			"run/output", "run/stderr", "run/exit.json", "run/format.json", "run/files/summary", "run/files/payload", "run/shim.log", "run/output.99",
		} {
			if replacement != "pipe" && !slices.Contains([]string{"agent.json", "runs", "run/run.json", "run/claim", "run/exit.json", "run/output"}, file) {
				continue
			}
			t.Run(replacement+" "+file, func(t *testing.T) {
				t.Parallel()
				// The sandbox would prevent this, so the test runs without it: Fleet must not depend on the sandbox.
				w := newTestPlace(t, func(c *local.Config) { c.Sandbox = sandbox.None })
				a := w.provisionIn("shell")
				marker := filepath.Join(t.TempDir(), "replaced")
				path := filepath.Join(w.home(a), file)
				if name, inRun := strings.CutPrefix(file, "run/"); inRun {
					path = "$FLEET_RUN_DIR/../" + name
				}
				r := w.start(a, fmt.Sprintf(`until [ -e $FLEET_RUN_DIR/../child ]; do :; done; f=%s; echo begun; %s; touch %s; sleep 3600`, path, script, marker))
				awaitFile(t, marker)
				_, err := w.List(w.ctx)
				require.NoError(t, err)
				_, err = w.Inspect(w.ctx, a)
				require.NoError(t, err)
				_, _, _ = w.Log(w.ctx, a, 10)
				w.kill(a, r)
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
