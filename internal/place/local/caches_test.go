package local_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/local"
	"fleet/internal/unprivileged"
)

// printCaches is a script that prints where the programs of an agent have their caches.
const printCaches = `for v in GOCACHE GOMODCACHE PIP_CACHE_DIR UV_CACHE_DIR CCACHE_DIR; do echo "${!v}"; done
for l in .npm/_cacache .cargo/registry .cargo/.package-cache; do readlink "$HOME/$l" || echo; done`

// provisionFor provisions an agent of the owner in the project.
func (w *testPlace) provisionFor(owner, project string) fleet.Agent {
	w.t.Helper()
	a := fleet.Agent{UID: uuid.NewString(), Name: "papi", Owner: owner, Project: project, Role: "coder"}
	_, err := w.Provision(w.ctx, a)
	require.NoError(w.t, err)
	return a
}

// TestCaches checks that agents share caches only with agents of the same owner in the same project.
func TestCaches(t *testing.T) {
	t.Parallel()
	requireSandbox(t)
	w := newTestPlace(t, func(c *local.Config) {
		c.Projects = append(c.Projects, local.Project{Name: "other"}, local.Project{Name: "apart", Caches: local.CachesOfAgent},
			local.Project{Name: "set", Env: map[string]string{"GOCACHE": "/own", "GOPATH": "/path", "XDG_CACHE_HOME": "/xdg"}},
			local.Project{Name: "home", Env: map[string]string{"HOME": "/"}}, local.Project{Name: "free", Sandbox: "none"})
	})
	one, two := w.provisionFor("alice", "shell"), w.provisionFor("alice", "shell")
	dirs := strings.Fields(w.mustRun(one, printCaches))
	require.Len(t, dirs, 8)
	require.Equal(t, dirs, strings.Fields(w.mustRun(two, printCaches)))
	w.mustRun(one, `for d in "$GOCACHE" "$GOMODCACHE" "$PIP_CACHE_DIR" "$UV_CACHE_DIR" "$CCACHE_DIR" "$HOME/.npm/_cacache" "$HOME/.cargo/registry"; do echo warm >"$d/file"; done
		exec 9>"$HOME/.cargo/.package-cache"; flock -n 9; mkdir -p "$HOME/.cargo/bin" "$HOME/.npm/_npx"`)
	require.Equal(t, strings.Repeat("warm", 7), w.mustRun(two, `for d in "$GOCACHE" "$GOMODCACHE" "$PIP_CACHE_DIR" "$UV_CACHE_DIR" "$CCACHE_DIR" "$HOME/.npm/_cacache" "$HOME/.cargo/registry"; do printf %s "$(cat "$d/file")"; done
		[ -f "$HOME/.cargo/registry/.package-cache" ]; [ ! -e "$HOME/.cargo/bin" ]; [ ! -e "$HOME/.npm/_npx" ]`))

	for _, foreign := range []fleet.Agent{w.provisionFor("bob", "shell"), w.provisionFor("alice", "other"), w.provisionFor("alice", "apart")} {
		require.NotContains(t, w.mustRun(foreign, printCaches), dirs[0])
		for _, dir := range []string{dirs[0], filepath.Dir(dirs[0]), filepath.Join(w.dir, "caches")} {
			w.mustRun(foreign, "! ls "+dir+" | grep -q . && ! cat "+dir+"/file && ! echo poison >"+dir+"/file")
		}
	}
	require.Empty(t, strings.Fields(w.mustRun(w.provisionFor("alice", "apart"), printCaches)))
	require.Equal(t, "/own\n\n\n\n", strings.Join(strings.SplitAfter(w.mustRun(w.provisionFor("alice", "set"), printCaches), "\n")[:4], ""))
	require.NotContains(t, w.mustRun(w.provisionFor("alice", "home"), "echo $GOCACHE,"), "caches")
	require.NotContains(t, w.mustRun(w.provisionFor("alice", "free"), "echo $GOCACHE,"), "caches")

	// An agent cannot replace the directory of a program. Otherwise it could redirect what other agents write.
	w.mustRun(one, `! mv "$GOCACHE" "$GOCACHE.old"; ! rmdir "$CCACHE_DIR"; ! ln -s / "$(dirname "$GOCACHE")/link"; ! touch "$(dirname "$GOCACHE")/file"`)
	// If an agent has replaced a link with its own file or directory, Fleet keeps that.
	w.mustRun(one, `rm "$HOME/.cargo/registry"; mkdir "$HOME/.cargo/registry"; rm -r "$HOME/.npm"; echo file >"$HOME/.npm"`)
	w.mustRun(one, `[ ! -L "$HOME/.cargo/registry" ]; [ -f "$HOME/.npm" ]`)
}

// TestCachesOfOrdinaryUser checks shared caches and their limit on a server that is not root.
func TestCachesOfOrdinaryUser(t *testing.T) {
	t.Parallel()
	requireSandbox(t)
	if unprivileged.Rerun(t) {
		return
	}
	t.Run("share", TestCaches)
	t.Run("limit", TestCacheLimit)
}

// TestCachesAfterReload checks that agents start or stop sharing caches when the configuration changes.
func TestCachesAfterReload(t *testing.T) {
	t.Parallel()
	requireSandbox(t)
	w := newTestPlace(t, nil)
	a := w.provisionFor("alice", "shell")
	before := w.mustRun(a, printCaches)
	require.Contains(t, before, filepath.Join(w.dir, "caches"))
	for _, s := range []struct {
		caches local.CacheSharing
		want   string
	}{{local.CachesOfAgent, ""}, {local.CachesOfOwner, before}} {
		apply, err := w.Reload([]local.Project{{Name: "shell", Caches: s.caches}}, nil)
		require.NoError(t, err)
		apply()
		require.Equal(t, s.want, w.mustRun(a, printCaches))
	}
	_, err := w.Reload([]local.Project{{Name: "shell", Caches: "all"}}, nil)
	require.ErrorContains(t, err, `caches is "all": use owner`)
}

// TestCacheLimit checks a shared cache in three states. If it is too large, it loses its oldest files, even while an agent uses it.
// If it cannot be shrunk, it is emptied. If it is no longer used, it is removed.
func TestCacheLimit(t *testing.T) {
	t.Parallel()
	requireSandbox(t)
	w := newTestPlace(t, func(c *local.Config) { c.CacheMax = 5 << 20 })
	a := w.provisionFor("alice", "shell")
	run := w.start(a, `mkdir -p "$GOMODCACHE/x/m@v1/sub" "$GOCACHE/aa"; head -c 3000000 /dev/zero >"$GOMODCACHE/x/m@v1/sub/f"; chmod 500 "$GOMODCACHE/x/m@v1/sub" "$GOMODCACHE/x/m@v1"
		find "$GOMODCACHE" -exec touch -d -3days {} +; head -c 3000000 /dev/zero >"$GOCACHE/aa/new"
		echo ready; until [ ! -e "$GOMODCACHE/x/m@v1" ]; do sleep 0.05; done; [ -s "$GOCACHE/aa/new" ]; echo again >"$GOCACHE/aa/more"`)
	w.followUntil(a, run, "ready")
	require.NoError(t, w.Tidy(w.ctx, time.Now()))
	_, o := w.follow(a, run)
	require.Equal(t, fleet.TaskCompleted, o.Status, o.Reason)

	for _, fill := range []string{
		`mkdir -p "$CCACHE_DIR"/{1..1500}/sub`,                                            // nothing but directories
		`head -c 6000000 /dev/zero >"$HOME/.cargo/.package-cache"; touch "$GOCACHE/file"`, // a file that shrinking does not remove
	} {
		w.mustRun(a, fill)
		require.NoError(t, w.Tidy(w.ctx, time.Now()))
		require.Empty(t, w.mustRun(a, `find -H "$GOCACHE" "$CCACHE_DIR" "$HOME/.cargo/registry" -mindepth 1`))
	}

	for idle, left := range map[time.Duration]int{6 * 24 * time.Hour: 1, 8 * 24 * time.Hour: 0} {
		w.mustRun(a, "true")
		require.NoError(t, w.Tidy(w.ctx, time.Now().Add(idle)))
		entries, err := os.ReadDir(filepath.Join(w.dir, "caches"))
		require.NoError(t, err)
		require.Len(t, entries, left)
	}
	w.mustRun(a, `echo >"$GOCACHE/file"`) // a run after the removal must get a new cache
}
