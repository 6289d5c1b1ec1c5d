package local_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"fleet/internal/fleet"
	"fleet/internal/place/local"
)

// watchOpens records the paths that this process opens on the file system of the directory. The function stop ends the recording
// and returns the paths. watchOpens skips the test if this process does not have the rights of root.
func watchOpens(t *testing.T, dir string) (stop func() []string) {
	t.Helper()
	last := filepath.Join(t.TempDir(), "last")
	require.NoError(t, os.WriteFile(last, nil, 0o600))
	fd, err := unix.FanotifyInit(unix.FAN_CLASS_NOTIF|unix.FAN_CLOEXEC|unix.FAN_NONBLOCK|unix.FAN_UNLIMITED_QUEUE, unix.O_RDONLY|unix.O_LARGEFILE|unix.O_NONBLOCK)
	if err == nil {
		err = unix.FanotifyMark(fd, unix.FAN_MARK_ADD|unix.FAN_MARK_FILESYSTEM, unix.FAN_OPEN|unix.FAN_ONDIR, unix.AT_FDCWD, dir)
	}
	if err != nil {
		t.Skip("fanotify: ", err)
	}
	events := os.NewFile(uintptr(fd), "fanotify")
	var paths []string
	done, lastOpened := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		buffer := make([]byte, 1<<16)
		for {
			n, err := events.Read(buffer)
			if err != nil {
				return
			}
			for rest := buffer[:n]; len(rest) >= unix.FAN_EVENT_METADATA_LEN; {
				e := (*unix.FanotifyEventMetadata)(unsafe.Pointer(&rest[0]))
				if e.Fd >= 0 {
					if int(e.Pid) == os.Getpid() {
						path, _ := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", e.Fd))
						if paths = append(paths, path); path == last {
							close(lastOpened)
							return
						}
					}
					_ = unix.Close(int(e.Fd))
				}
				rest = rest[e.Event_len:]
			}
		}
	}()
	t.Cleanup(func() { _ = events.Close(); <-done })
	return func() []string {
		f, err := os.Open(last)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		select {
		case <-lastOpened:
		case <-done:
		}
		return paths
	}
}

// TestServerOpensNoFilesOfAgents checks that this process opens nothing in the directories that an agent can write. The
// sandbox helper and git, which are confined, must do that instead.
func TestServerOpensNoFilesOfAgents(t *testing.T) {
	requireSandbox(t)
	repo := newRepository(t)
	userHome := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(userHome, ".claude"), 0o700))
	w := newTestPlace(t, func(c *local.Config) {
		c.Environ, c.CacheMax = append(os.Environ(), "HOME="+userHome), 1
		c.Projects = append(c.Projects, local.Project{Name: "repo", Repository: repo})
	})
	a, b := w.provisionIn("repo"), w.provisionIn("shell")
	stop := watchOpens(t, w.dir)
	w.mustRun(a, `echo two >file; git commit -qam two; echo three >file; echo new >untracked; mkfifo pipe; git checkout -q --detach
		git worktree add -q "$TMPDIR/tree"; git update-index --split-index; mkdir -p "$(git rev-parse --git-dir)/lfs/objects/aa/bb"; ln -s / link; touch "$(git rev-parse --git-dir)/HEAD.lock"
		mkdir -p deep/er "$HOME/x"; echo sum >"$FLEET_SUMMARY"`)
	w.mustRun(b, `mkdir -p a/b; echo >a/b/c`)
	r := newRun("echo again >>file")
	_, o := w.execute(a, r)
	require.Equal(t, fleet.TaskCompleted, o.Status, o.Reason)
	c := w.changes(a, r)
	_, _, err := w.Connect(a).Patch(w.ctx, *c, "", 0, 1<<20)
	require.NoError(t, err)
	require.NoError(t, w.Connect(a).Bundle(w.ctx, new(strings.Builder)))
	w.mustRun(a, `mkdir -p "$GOMODCACHE/m@v1/sub" "$HOME/.npm/_cacache/x"; echo >"$GOMODCACHE/m@v1/sub/file"; echo >"$GOCACHE/file"; chmod 500 "$GOMODCACHE/m@v1"`)
	for _, later := range []time.Duration{0, 8 * 24 * time.Hour} {
		require.NoError(t, w.Tidy(w.ctx, time.Now().Add(later)))
	}
	_, err = w.List(w.ctx)
	require.NoError(t, err)
	_, err = w.UnsavedWork(w.ctx, a)
	require.NoError(t, err)
	require.NoError(t, w.Stop(w.ctx, a))
	require.NoError(t, w.Start(w.ctx, a))
	for range 2 {
		w.remove(a)
		require.NoError(t, w.Start(w.ctx, a))
	}
	for _, agent := range []fleet.Agent{a, b} {
		w.remove(agent)
	}
	openedByTest := filepath.Join(w.dir, "agents", "self", "work")
	require.NoError(t, os.MkdirAll(openedByTest, 0o700))
	_, err = os.ReadDir(openedByTest)
	require.NoError(t, err)
	var found []string
	all := stop()
	for _, path := range all {
		if rest, in := strings.CutPrefix(path, filepath.Join(w.dir, "caches")+"/"); in && strings.Count(rest, "/") > 0 {
			found = append(found, path) // the directory of one owner and project belongs to Fleet
		}
	}
	for _, path := range all {
		for _, parent := range []string{"agents", "kept"} {
			rest, in := strings.CutPrefix(path, filepath.Join(w.dir, parent)+"/")
			_, rest, below := strings.Cut(rest, "/")
			part, _, _ := strings.Cut(rest, "/")
			if in && below && slices.Contains([]string{"work", "git", "home", "tmp"}, part) {
				found = append(found, path)
			}
		}
	}
	require.Equal(t, []string{openedByTest}, found, "the test must see only the directory that it has opened itself")
}
