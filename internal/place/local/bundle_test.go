package local_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

// TestBundleHasAllWork checks that the bundle of a deleted agent has all of its work, whatever state the agent has left its
// repository in.
func TestBundleHasAllWork(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		script string
		want   fleet.TaskStatus
		kill   bool // after the script has printed "done"
	}{
		"a task that completed": {"git checkout -q -b mine; echo two >file; git commit -qam two; echo new >new", fleet.TaskCompleted, false},
		"a task that failed":    {"echo two >file; git commit -qam two; echo new >new; exit 1", fleet.TaskFailed, false},
		"a task that is killed": {"echo two >file; git commit -qam two; git checkout -q --detach; echo new >new; echo done; sleep 3600", fleet.TaskStopped, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, repo, a := newRepositoryAgent(t)
			r := w.start(a, tc.script)
			if tc.kill {
				w.followUntil(a, r, "done")
				w.kill(a, r)
			}
			_, o := w.follow(a, r)
			require.Equal(t, tc.want, o.Status, o.Reason)
			c := w.changes(a, r)
			require.Equal(t, 2, c.FileCount)
			w.remove(a)

			var b bytes.Buffer
			require.NoError(t, w.Connect(a).Bundle(w.ctx, &b))
			file := filepath.Join(t.TempDir(), "bundle")
			require.NoError(t, os.WriteFile(file, b.Bytes(), 0o600))
			clone := t.TempDir()
			runScript(t, clone, "git clone -q --single-branch -b main "+repo+" .; git fetch -q "+file+" +refs/fleet/"+a.UID+"/last:refs/heads/rescued; git checkout -q rescued")
			for name, want := range map[string]string{"file": "two\n", "new": "new\n"} {
				got := readFile(t, filepath.Join(clone, name))
				require.Equal(t, want, got)
			}
		})
	}
}

// TestBundleOfBrokenTree checks that the bundle has the agent's commits although its working directory no longer exists.
func TestBundleOfBrokenTree(t *testing.T) {
	t.Parallel()
	w, repo, a := newRepositoryAgent(t)
	r := w.start(a, "git commit -q --allow-empty -m two")
	w.follow(a, r)
	ws, err := w.Inspect(w.ctx, a)
	require.NoError(t, err)
	require.NoError(t, os.RemoveAll(ws.Location))
	var b bytes.Buffer
	require.NoError(t, w.Connect(a).Bundle(w.ctx, &b))
	require.NotEmpty(t, b.Bytes())
	file := filepath.Join(t.TempDir(), "bundle")
	require.NoError(t, os.WriteFile(file, b.Bytes(), 0o600))
	require.Equal(t, "two", runScript(t, repo, "git fetch -q "+file+" refs/fleet/"+a.UID+"/last; git log -1 --format=%s FETCH_HEAD"))
}
