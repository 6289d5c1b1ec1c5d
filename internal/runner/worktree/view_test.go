package worktree

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// evilConfig is a script that configures the programs that git could run: in the configuration of a repository, in a file
// that it includes, in the configuration of a worktree, and as hooks. Each program writes to the file $TRAP when it runs.
const evilConfig = `
cat >"$TRAP.sh" <<END
#!/bin/sh
echo "\$0 \$*" >>"$TRAP"
cat
END
chmod +x "$TRAP.sh"
configure() {
	for key in filter.evil.clean filter.evil.smudge filter.evil.process diff.evil.textconv diff.evil.command diff.external \
		merge.evil.driver core.fsmonitor core.pager core.editor core.sshCommand core.askPass core.gitProxy core.alternateRefsCommand \
		credential.helper gpg.program pager.status sequence.editor remote.origin.uploadpack remote.evil.uploadpack; do
		git config "$@" "$key" "$TRAP.sh"
	done
	git config "$@" core.hooksPath "$TRAP.hooks"
	git config "$@" filter.evil.required true
	git config "$@" protocol.ext.allow always
	git config "$@" url."ext::$TRAP.sh ".insteadOf file://
	git config "$@" core.attributesFile "$TRAP.attributes"
	git config "$@" maintenance.auto true
}
mkdir -p "$TRAP.hooks"
for hook in post-checkout reference-transaction post-index-change fsmonitor-watchman pre-auto-gc post-rewrite; do
	cp "$TRAP.sh" "$TRAP.hooks/$hook"
	[ ! -d "$(git rev-parse --git-common-dir)/hooks" ] || cp "$TRAP.sh" "$(git rev-parse --git-common-dir)/hooks/$hook"
done
echo '* filter=evil diff=evil merge=evil' >"$TRAP.attributes"
configure --file "$TRAP.included"
git config extensions.worktreeConfig true
configure --worktree
configure --local
git config --local include.path "$TRAP.included"
`

// trapPrograms runs evilConfig in the directory of an agent. At the end, it fails the test if Fleet's git has run one of the
// programs.
func trapPrograms(t *testing.T, dir string) {
	t.Helper()
	trap := filepath.Join(t.TempDir(), "ran")
	sh(t, dir, "TRAP="+trap+"\n"+evilConfig)
	require.NoError(t, os.RemoveAll(trap)) // programs that the agent's own git ran do not count
	t.Cleanup(func() {
		ran, _ := os.ReadFile(trap)
		require.Empty(t, strings.TrimSpace(string(ran)))
	})
}

// attributeScript makes the agent's filter apply to all files, and changes a file, so that git must read it again.
const attributeScript = `echo '* filter=evil diff=evil' >.gitattributes; printf 'two\n' >file; touch file`

func TestProgramsOfAgentsAreNotRun(t *testing.T) {
	t.Parallel()
	t.Run("reading a tree", func(t *testing.T) {
		t.Parallel()
		g, tree := createTree(t)
		sh(t, tree.Dir, attributeScript)
		trapPrograms(t, tree.Dir)
		require.NotEmpty(t, mustExamine(t, g, tree).Unsaved)
	})
	t.Run("reading a submodule", func(t *testing.T) {
		t.Parallel()
		g, tree := createTree(t)
		sh(t, tree.Dir, "git -c protocol.file.allow=always submodule --quiet add "+newRepository(t)+" sub; git commit -qm sub")
		sub := filepath.Join(tree.Dir, "sub")
		sh(t, sub, attributeScript)
		trapPrograms(t, sub)
		w := mustExamine(t, g, tree)
		require.Equal(t, []string{"fleet/papi-1"}, w.Branches)
		require.NotEmpty(t, w.Unsaved)
		require.NoError(t, g.Remove(t.Context(), tree, w.Branches))
		require.NoDirExists(t, tree.Dir)
	})
	t.Run("creating the next tree", func(t *testing.T) {
		t.Parallel()
		g, tree := createTree(t)
		sh(t, tree.Dir, attributeScript+"; git add -A; git commit -qm two")
		trapPrograms(t, tree.Dir)
		mustExamine(t, g, tree)
		next := newTree(t, tree.Repository, "next")
		require.NoError(t, g.Add(t.Context(), next, tree.Branch))
		require.Equal(t, "two\n", sh(t, next.Dir, "cat file"))
	})
	t.Run("fetching", func(t *testing.T) {
		t.Parallel()
		origin := newRepository(t)
		g, mirror := fetchMirror(t, "file://"+origin)
		tree := newTree(t, mirror, "b")
		require.NoError(t, g.Add(t.Context(), tree, ""))
		trapPrograms(t, tree.Dir)
		sh(t, origin, "echo two >file; git commit -qam two")
		require.NoError(t, g.Fetch(t.Context(), "file://"+origin, mirror))
		next := newTree(t, mirror, "next")
		require.NoError(t, g.Add(t.Context(), next, ""))
		require.Equal(t, "two\n", sh(t, next.Dir, "cat file"))
	})
}
