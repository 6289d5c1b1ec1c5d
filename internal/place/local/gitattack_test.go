package local_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

// runAttacks makes the agent run each attack, which is a line of shell code. The test fails for each attack that succeeds.
// prepare is shell code that runs before the attacks.
func (w *testPlace) runAttacks(a fleet.Agent, prepare string, attacks []string) {
	w.t.Helper()
	output := w.mustRun(a, "set +e\n"+prepare+"\n"+attackScript(attacks)+"echo done")
	require.True(w.t, strings.HasSuffix(output, "done"), output)
	requireNoSuccess(w.t, output, attacks)
}

// attackScript returns a script that executes each attack, and prints which ones succeed.
func attackScript(attacks []string) (script string) {
	for i, attack := range attacks {
		script += fmt.Sprintf("if ( %s ) </dev/null >/dev/null 2>&1; then echo %d succeeded; fi\n", attack, i)
	}
	return script
}

// requireNoSuccess fails the test for each attack that has succeeded, according to the output of attackScript.
func requireNoSuccess(t *testing.T, output string, attacks []string) {
	t.Helper()
	for line := range strings.Lines(output) {
		var i int
		if _, err := fmt.Sscanf(line, "%d succeeded", &i); err == nil {
			t.Errorf("the attack succeeded: %s", attacks[i])
		}
	}
}

// TestGitAttacks runs an agent that attacks the repository of its project and the git directory of another agent.
func TestGitAttacks(t *testing.T) {
	t.Parallel()
	requireSandbox(t)
	w, repo := newRepositoryPlace(t, "")
	other, a := w.provisionIn("repo"), w.provisionIn("repo")
	w.runTask(other, "git commit -q --allow-empty -m theirs")
	runScript(t, repo, `printf '#!/bin/sh\n' >.git/hooks/pre-commit; git branch release; git tag v1; git pack-refs --all; git checkout -q -b work`)
	state := func() string {
		return runScript(t, repo, `find .git "`+w.home(other, "git")+`" -type f -not -path '*/refs/fleet/*' | sort | xargs sha256sum; git status --porcelain`)
	}
	before := state()
	w.runAttacks(a, `R=`+repo+` O=`+w.home(other, "git")+`; git commit -q --allow-empty -m mine; MINE=$(git rev-parse HEAD); git config --global --add safe.directory '*'; printf '#!/bin/sh\n' >hook; chmod +x hook`, []string{
		"cp hook $R/.git/hooks/post-checkout",
		"echo : >>$R/.git/hooks/pre-commit",
		"mv hook $R/.git/hooks/pre-commit",
		"git -C $R config core.fsmonitor $PWD/hook",
		"echo '[core]' >>$R/.git/config",
		"mv hook $R/.git/config",
		"git -C $R update-ref refs/heads/release $MINE",
		"git -C $R update-ref -d refs/tags/v1",
		"git -C $R branch mine $MINE",
		"git push $R HEAD:refs/heads/mine",
		"git push --force file://$R HEAD:refs/heads/release",
		"echo $MINE >$R/.git/refs/heads/release",
		"echo $MINE >>$R/.git/packed-refs",
		"echo 'ref: refs/heads/release' >$R/.git/HEAD",
		"git -C $R stash",
		"git -C $R worktree add $PWD/tree",
		"git -C $R worktree prune --expire=now; touch $R/.git/worktrees",
		"git -C $R hash-object -w --stdin",
		"rm -f $R/.git/objects/*/*",
		"mv $R/.git elsewhere",
		"echo attacked >>$R/file",
		"cat $R/file",
		"echo attacked >$R/.gitattributes",
		"ln $R/.git/config linked && echo x >>linked",
		"ls $O",
		"cat $O/config",
		"cp hook $O/hooks/pre-commit",
		"git --git-dir=$O config core.hooksPath $PWD",
		"echo $MINE >$O/refs/heads/main",
		"mv hook $O/HEAD",
		"cat $O.json",
		"echo '{}' >../git.json",
		"echo x >../git.json.new",
		"mv ../git ../git.old",
		"rm ../git.json",
	})
	require.True(t, before == state(), "the attacks must not change the repository")

	// The agent can change the files of its own git directory. These changes must not affect other agents, and Fleet must not run
	// the agent's programs.
	_, o := w.runTask(a, `printf '#!/bin/sh\ntouch `+w.home(a, "work", "ran")+`\n' >hook; chmod +x hook
		for h in reference-transaction post-checkout post-index-change; do cp hook ../git/hooks/$h; done
		git config core.fsmonitor $PWD/hook; git config core.alternateRefsCommand $PWD/hook; git config uploadpack.packObjectsHook $PWD/hook
		echo `+w.home(other, "git", "objects")+` >>../git/objects/info/alternates
		git checkout -q release; echo evil >file; git commit -q -am evil; rm -f ran`)
	require.Equal(t, fleet.TaskCompleted, o.Status, "%+v", o)
	kept := w.remove(a)
	require.Contains(t, kept, filepath.Join(w.dir, "kept"), "the uncommitted hook must be kept")
	require.NoFileExists(t, filepath.Join(w.dir, "kept", a.UID, "work", "ran"))
	branch := branchOf(a)
	require.Equal(t, "one\nevil", runScript(t, repo, "git show release:file; git show "+branch+"-release:file; git fsck --full >&2"))
}

// TestRedirectedWorktree runs agents that redirect parts of their worktrees to the worktree of another agent. Fleet must not copy the
// other agent's files into the repository, and must not change them.
func TestRedirectedWorktree(t *testing.T) {
	t.Parallel()
	requireSandbox(t)
	w, repo := newRepositoryPlace(t, "")
	other := w.provisionIn("repo")
	w.runTask(other, "echo secret >secret; git add secret; git commit -qm secret")
	for name, script := range map[string]string{
		"the link":                 `echo "gitdir: $O" >.git`,
		"the common git directory": `echo "$O" >../git/commondir`,
		"its objects":              `rm -rf ../git/objects; ln -s "$O/objects" ../git/objects`,
		"its refs":                 `rm -rf ../git/refs; ln -s "$O/refs" ../git/refs`,
		"a ref":                    `ln -sf "$O/refs/heads/$THEIRS" ../git/refs/heads/stolen`,
		"its HEAD":                 `ln -sf "$O/HEAD" ../git/HEAD`,
		"its index":                `ln -sf "$O/index" ../git/index`,
		"its files":                `ln -s "$O/../work" files; rm -f file; ln -s "$O/../work/secret" file`,
		"its working dir":          `git config core.worktree "$O/../work"`,
		"config.worktree":          `git config extensions.worktreeConfig true; echo "[core]" >../git/config.worktree; echo "worktree = $O/../work" >>../git/config.worktree`,
		"an included file":         `echo "[include] path = $O/config" >>../git/config`,
	} {
		t.Run(name, func(t *testing.T) {
			a := w.provisionIn("repo")
			w.mustRun(a, "O="+w.home(other, "git")+" THEIRS="+branchOf(other)+"; "+script)
			r := newRun("true")
			_ = w.Connect(a).Dispatch(w.ctx, r)
			_, _ = w.Connect(a).Changes(w.ctx, r)
			w.remove(a)
			require.NotContains(t, runScript(t, repo, "git for-each-ref --format='%(refname)' refs/heads refs/fleet/"+a.UID+
				" | while read r; do git ls-tree -r $r; done; git fsck --full >&2"), "secret")
			require.FileExists(t, w.home(other, "work", "secret"))
		})
	}
	w.changes(other, newRun("true"))
	require.FileExists(t, w.home(other, "git", "HEAD"))
}
