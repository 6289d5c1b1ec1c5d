package worktree

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

func TestPush(t *testing.T) {
	t.Parallel()
	repo, dir := newRepository(t), t.TempDir()
	remote := filepath.Join(dir, "r.git")
	sh(t, dir, "git init -q --bare r.git; git init -q --bare s.git")
	g := New(os.Environ(), t.TempDir())
	p := fleet.Push{Commit: revision(t, repo, "main"), Branch: "feature/x"}
	_, err := g.Push(t.Context(), repo, "", p)
	require.Equal(t, fleet.ReasonRemoteNotFound, reasonOf(err))
	require.ErrorContains(t, err, "it has none")
	sh(t, repo, "git remote add fork "+remote+"; printf '#!/bin/sh\\nexit 1\\n' >.git/hooks/pre-push; chmod +x .git/hooks/pre-push")
	got, err := g.Push(t.Context(), repo, "", p)
	require.NoError(t, err)
	require.Equal(t, fleet.PushResult{Remote: "fork", URL: remote}, got)
	require.Equal(t, p.Commit, revision(t, remote, "feature/x"))
	require.Equal(t, p.Commit, revision(t, repo, "refs/remotes/fork/feature/x"))
	_, err = g.Push(t.Context(), repo, "", p)
	require.NoError(t, err, "a repeated call must succeed")

	sh(t, repo, "git commit -q --allow-empty -m theirs; git push -q --no-verify fork HEAD:feature/x; git reset -q --hard HEAD^; git commit -q --allow-empty -m mine")
	p.Commit = revision(t, repo, "main")
	_, err = g.Push(t.Context(), repo, "", p)
	require.Equal(t, fleet.ReasonBranchMoved, reasonOf(err), "%v", err)
	sh(t, repo, "git remote add other "+filepath.Join(dir, "s.git"))
	_, err = g.Push(t.Context(), repo, "", p)
	require.Equal(t, fleet.ReasonRemoteNotFound, reasonOf(err), "there are several remotes, and none is origin")
	p.Remote = "other"
	_, err = g.Push(t.Context(), repo, "", p)
	require.NoError(t, err)
	for _, p.Branch = range []string{"-f", "a b", "a..b", "refs/../x", ""} {
		_, err = g.Push(t.Context(), repo, "", p)
		require.Error(t, err, p.Branch)
	}

	sh(t, filepath.Join(dir, "s.git"), `printf '#!/bin/sh\necho no entry; exit 1\n' >hooks/pre-receive; chmod +x hooks/pre-receive`)
	p.Branch = "refused"
	_, err = g.Push(t.Context(), repo, "", p)
	require.ErrorContains(t, err, "pre-receive hook declined")
	require.Equal(t, fleet.ReasonPushRefused, reasonOf(err))

	sh(t, repo, "git remote add secret https://user:hunter2secret@localhost:1/x.git")
	p.Remote = "secret"
	_, err = g.Push(t.Context(), repo, "", p)
	require.Error(t, err)
	require.NotContains(t, err.Error(), "hunter2")
	require.NotContains(t, err.Error(), "user:")
}
