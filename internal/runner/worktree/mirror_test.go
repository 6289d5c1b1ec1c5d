package worktree

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// fetchMirror fetches the remote repository source, and returns the path of its new mirror.
func fetchMirror(t *testing.T, source string) (g *Git, mirror string) {
	t.Helper()
	g = New(os.Environ(), t.TempDir())
	mirror = MirrorPath(filepath.Join(t.TempDir(), "repositories"), source)
	require.NoError(t, g.Fetch(t.Context(), source, mirror))
	return g, mirror
}

func TestFetch(t *testing.T) {
	t.Parallel()
	origin := newRepository(t)
	source := "file://" + origin
	require.True(t, IsRemote(source))
	g, mirror := fetchMirror(t, source)
	tree := newTree(t, mirror, "fleet/papi-1")
	require.NoError(t, g.Add(t.Context(), tree, ""))
	sh(t, tree.Dir, "git commit -q --allow-empty -m mine")
	w := mustExamine(t, g, tree)
	require.Equal(t, Work{Commits: 1, Branches: []string{"fleet/papi-1"}}, w)

	// New trees start at the current state, and existing trees do not change.
	sh(t, origin, "echo two >>file; git commit -qam two; git checkout -q -b next; git commit -q --allow-empty -m next; git checkout -q main")
	require.NoError(t, g.Fetch(t.Context(), source, mirror))
	second := newTree(t, mirror, "fleet/sony-2")
	require.NoError(t, g.Add(t.Context(), second, ""))
	require.Equal(t, "one\ntwo\n", sh(t, second.Dir, "cat file"))
	third := newTree(t, mirror, "fleet/carl-3")
	require.NoError(t, g.Add(t.Context(), third, "next"))
	require.Equal(t, "next\n", sh(t, third.Dir, "git log -1 --format=%s"))
	require.Equal(t, "mine\n", sh(t, tree.Dir, "git log -1 --format=%s"))
	sh(t, tree.Dir, "git push -q origin HEAD:refs/heads/result")
	require.Contains(t, sh(t, origin, "git branch"), "result")

	err := g.Fetch(t.Context(), "file://user:secret@"+filepath.Join(origin, "no"), mirror+"x")
	require.Error(t, err)
	require.NotContains(t, err.Error(), "secret")
	require.NoDirExists(t, mirror+"x")
}

func TestSilentSource(t *testing.T) {
	t.Parallel()
	origin := newRepository(t)
	g, mirror := fetchMirror(t, "file://"+origin)
	asked := make(chan struct{}, 1)
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-r.Context().Done()
	}))
	defer silent.Close()
	ctx, cancel := context.WithCancel(t.Context())
	fetched := make(chan error, 1)
	go func() { fetched <- g.Fetch(ctx, silent.URL, mirror) }()
	<-asked

	require.NoError(t, g.Add(t.Context(), newTree(t, mirror, "fleet/papi-1"), ""), "an agent must not wait for another agent's fetch")
	impatient, stop := context.WithTimeout(t.Context(), time.Millisecond)
	defer stop()
	require.ErrorIs(t, g.Fetch(impatient, silent.URL, mirror), context.DeadlineExceeded)
	cancel()
	require.ErrorIs(t, <-fetched, context.Canceled)
}

func TestIsRemote(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]bool{
		"https://example.com/a/b.git": true, "ssh://git@example.com/a": true, "git@example.com:a/b.git": true, "host:path": true,
		"file:///srv/a": true, "/srv/git/a": false, "../a": false, "a": false, "": false, "/srv/a:b": false,
	} {
		require.Equal(t, want, IsRemote(source), source)
	}
}

func TestMirrorPath(t *testing.T) {
	t.Parallel()
	require.NotEqual(t, MirrorPath("d", "https://a/x.git"), MirrorPath("d", "https://b/x.git"), "mirrors of different sources must not share a directory")
}
