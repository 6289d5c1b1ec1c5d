package worktree

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

// combination returns a request to combine head with the branch main.
func combination(t *testing.T, repo, head string, s fleet.Strategy) fleet.Combination {
	t.Helper()
	return fleet.Combination{
		Contribution: fleet.Contribution{Head: revision(t, repo, head)}, Onto: revision(t, repo, "main"), Strategy: s, Message: "Land it\n\nbody",
		Author: fleet.Person{Name: "papi <x>", Email: "papi@example.com"}, Committer: fleet.Person{Name: "alice", Email: "alice@example.com"}, At: time.Unix(1700000000, 0),
	}
}

func revision(t testing.TB, repo, name string) string {
	t.Helper()
	return strings.TrimSpace(sh(t, repo, "git rev-parse "+name))
}

// reasonOf returns the reason of the error. Unlike fleet.ReasonOf, it returns an empty reason if the error is not a *fleet.Error.
func reasonOf(err error) fleet.Reason {
	e, _ := errors.AsType[*fleet.Error](err)
	if e == nil {
		return ""
	}
	return e.Reason
}

func combine(t *testing.T, repo string, c fleet.Combination) fleet.CombineResult {
	t.Helper()
	r, err := New(os.Environ(), t.TempDir()).Combine(t.Context(), repo, c)
	require.NoError(t, err)
	return r
}

func TestCombine(t *testing.T) {
	t.Parallel()
	repo := newRepository(t)
	sh(t, repo, `seq 9 >n; git add n; git commit -qm n
		git checkout -q -b work; sed -i s/9/nine/ n; git commit -qam w1 --author 'W <w@w>' --date '2001-01-01T00:00:00+0300'; echo new >'odd "na	me'; git add .; git commit -qm w2
		git checkout -q main; sed -i s/1/one/ n; git commit -qam m1`)
	show := func(commit string) string {
		return sh(t, repo, "git log -1 --format='%an|%ae|%at|%cn|%ce|%P|%B' "+commit+"; git show "+commit+":n | head -1; git show "+commit+":n | tail -1; git ls-tree -z --name-only "+commit+" | tr '\\0' ','")
	}
	main, head, base := revision(t, repo, "main"), revision(t, repo, "work"), revision(t, repo, "main^")
	before := sh(t, repo, "git for-each-ref; git status --porcelain")

	r := combine(t, repo, combination(t, repo, "work", fleet.Squash))
	require.Equal(t, base, r.Base)
	require.Equal(t, "papi x|papi@example.com|1700000000|alice|alice@example.com|"+main+"|Land it\n\nbody\n\none\nnine\nfile,n,odd \"na\tme,", show(r.Commit))
	require.Equal(t, r, combine(t, repo, combination(t, repo, "work", fleet.Squash)), "a repeated call must return the same commit")

	r = combine(t, repo, combination(t, repo, "work", fleet.Merge))
	require.Equal(t, "alice|alice@example.com|1700000000|alice|alice@example.com|"+main+" "+head+"|Land it\n\nbody\n\none\nnine\nfile,n,odd \"na\tme,", show(r.Commit))

	r = combine(t, repo, combination(t, repo, "work", fleet.Rebase))
	require.Contains(t, show(r.Commit), "A|a@example.com|")
	require.Equal(t, "W|w@w|978296400|alice|"+main+"|w1\n", sh(t, repo, "git log -1 --format='%an|%ae|%at|%cn|%P|%s' "+r.Commit+"^"))
	require.Equal(t, before, sh(t, repo, "git for-each-ref; git status --porcelain"), "no ref and no file may change")
	sh(t, repo, "git fsck --strict --no-dangling")

	t.Run("a merge although main could be fast-forwarded", func(t *testing.T) {
		c := combination(t, repo, "work", fleet.Merge)
		c.Onto = base
		require.Equal(t, base+" "+head+"\n", sh(t, repo, "git log -1 --format=%P "+combine(t, repo, c).Commit))
	})
	t.Run("nothing is left to combine", func(t *testing.T) {
		for _, s := range []fleet.Strategy{fleet.Squash, fleet.Rebase, fleet.Merge} {
			c := combination(t, repo, "work", s)
			c.Onto = combine(t, repo, c).Commit
			require.Equal(t, c.Onto, combine(t, repo, c).Commit, s)
			c.Head = base
			require.Equal(t, c.Onto, combine(t, repo, c).Commit, s)
		}
	})
	t.Run("the repository lacks a commit", func(t *testing.T) {
		c := combination(t, repo, "work", fleet.Squash)
		for _, c.Head = range []string{strings.Repeat("1", 40), "main", "", "--help"} {
			_, err := New(os.Environ(), t.TempDir()).Combine(t.Context(), repo, c)
			if c.Head != "" {
				require.Equal(t, fleet.ReasonChangesNotFound, reasonOf(err), "%v", err)
			} else {
				require.Error(t, err)
			}
		}
	})
	t.Run("another history", func(t *testing.T) {
		sh(t, repo, "git checkout -q --orphan other; git commit -qm other; git checkout -q -f main")
		_, err := New(os.Environ(), t.TempDir()).Combine(t.Context(), repo, combination(t, repo, "other", fleet.Squash))
		require.ErrorContains(t, err, "no history in common")
	})
	t.Run("a merge among the commits", func(t *testing.T) {
		sh(t, repo, "git checkout -q -b merged work; git merge -q --no-edit main; git checkout -q main")
		c := combination(t, repo, "merged", fleet.Rebase)
		c.Onto = base
		_, err := New(os.Environ(), t.TempDir()).Combine(t.Context(), repo, c)
		require.ErrorContains(t, err, "use squash or merge")
		e, _ := errors.AsType[*fleet.Error](err)
		require.Equal(t, "strategy", e.Field)
		c.Strategy = fleet.Squash
		require.NotEmpty(t, combine(t, repo, c).Commit)
	})
}

// TestCombineSnapshot checks that work on top of uncommitted files of earlier work does not include those files.
func TestCombineSnapshot(t *testing.T) {
	t.Parallel()
	repo := newRepository(t)
	snapshot := func() string {
		return strings.TrimSpace(sh(t, repo, `git add -A; git commit-tree $(git write-tree) -p HEAD -m snapshot`))
	}
	sh(t, repo, `git checkout -q -b work; echo first >a`)
	first := snapshot()
	sh(t, repo, `echo second >b`)
	c := combination(t, repo, "main", fleet.Squash)
	c.Head, c.Since = snapshot(), first
	r := combine(t, repo, c)
	require.Equal(t, first, r.Base)
	require.Equal(t, "b\nfile\n", sh(t, repo, "git ls-tree --name-only "+r.Commit))
	c.Strategy = fleet.Rebase
	require.Equal(t, "a\nb\nfile\n", sh(t, repo, "git ls-tree --name-only "+combine(t, repo, c).Commit))

	// After a rebase, the work includes everything that the agent has done.
	sh(t, repo, `git stash -q; git checkout -q main; echo other >c; git add c; git commit -qm c; git checkout -q work; git reset -q --hard main; git stash pop -q`)
	c = combination(t, repo, "main", fleet.Squash)
	c.Head, c.Since = snapshot(), first
	require.Equal(t, "a\nb\nc\nfile\n", sh(t, repo, "git ls-tree --name-only "+combine(t, repo, c).Commit))
}

// TestCombineLater checks that later work of an agent is compared with its work that has landed.
func TestCombineLater(t *testing.T) {
	t.Parallel()
	repo := newRepository(t)
	sh(t, repo, `git checkout -q -b work; echo two >file; git commit -qam w1`)
	first := combination(t, repo, "work", fleet.Squash)
	landed := combine(t, repo, first).Commit
	sh(t, repo, "git checkout -q main; git reset -q --hard "+landed+"; git checkout -q work; echo three >file; git commit -qam w2; git checkout -q main")
	for _, s := range []fleet.Strategy{fleet.Squash, fleet.Rebase, fleet.Merge} {
		c := combination(t, repo, "work", s)
		require.Equal(t, s == fleet.Rebase, len(combine(t, repo, c).Conflicts) == 0, s) // rebase leaves the landed commit out
		c.Since = first.Head
		r := combine(t, repo, c)
		require.Empty(t, r.Conflicts, s)
		require.Equal(t, first.Head, r.Base)
		require.Equal(t, "three\n", sh(t, repo, "git show "+r.Commit+":file"), s)
		c.Since = revision(t, repo, "main")                                         // not in the history of the work
		require.Equal(t, s == fleet.Squash, c.Since == combine(t, repo, c).Base, s) // its parent is in that history, so it may be a snapshot
	}
}

func TestConflicts(t *testing.T) {
	t.Parallel()
	repo := newRepository(t)
	sh(t, repo, `for i in $(seq 200); do echo line $i; done >long; printf 'a\0b' >bin; seq 30 40 >moved; echo d >deleted; echo o >'odd "é
name'; git add .; git commit -qm base
		git checkout -q -b work; sed -i 's/.*/w &/' long; printf 'w\0b' >bin; echo w >file; git mv moved to-work; git rm -q deleted; echo w >'odd "é
name'; echo w >both; git add .; git commit -qm work
		git checkout -q main; sed -i 's/.*/m &/' long; printf 'm\0b' >bin; echo m >file; git mv moved to-main; echo m >deleted; echo m >'odd "é
name'; echo m >both; git add .; git commit -qm main`)
	for _, s := range []fleet.Strategy{fleet.Squash, fleet.Rebase, fleet.Merge} {
		r := combine(t, repo, combination(t, repo, "work", s))
		require.Empty(t, r.Commit)
		kinds, hunks := map[string]string{}, map[string]string{}
		for _, c := range r.Conflicts {
			kinds[c.Path], hunks[c.Path] = c.Kind, c.Hunks
		}
		require.Equal(t, map[string]string{
			"long": "content", "bin": "binary", "file": "content", "moved": "rename/rename", "to-main": "rename/rename", "to-work": "rename/rename",
			"deleted": "modify/delete", "odd \"é\nname": "content", "both": "add/add",
		}, kinds)
		require.Equal(t, "<<<<<<< branch\nm\n=======\nw\n>>>>>>> work\n", hunks["file"])
		require.Equal(t, hunks["file"], hunks["odd \"é\nname"])
		require.Empty(t, hunks["bin"])
		require.LessOrEqual(t, len(hunks["long"]), fleet.MaxHunksSize)
		require.Greater(t, len(hunks["long"]), fleet.MaxHunksSize-100)
		require.True(t, strings.HasPrefix(hunks["long"], "<<<<<<< branch\nm line 1\n"))
	}
	t.Run("many", func(t *testing.T) {
		repo := newRepository(t)
		sh(t, repo, "for i in $(seq 300); do echo a >f$i; done; git add .; git commit -qm a; git checkout -q -b work; for i in $(seq 300); do echo w >f$i; done; git commit -qam w; git checkout -q main; for i in $(seq 300); do echo m >f$i; done; git commit -qam m")
		require.Len(t, combine(t, repo, combination(t, repo, "work", fleet.Squash)).Conflicts, fleet.MaxConflicts)
	})
}

// TestCombineHostile checks that a merge runs no program that an agent, the repository or the user has configured.
func TestCombineHostile(t *testing.T) {
	t.Parallel()
	repo, home := newRepository(t), t.TempDir()
	evil := filepath.Join(home, "evil")
	run := "touch " + evil
	// A confined program cannot create the file, but the driver would make the conflicts disappear.
	config := fmt.Sprintf(`[merge "evil"]
	driver = "%[1]s; echo evil >%%A"
[filter "evil"]
	clean = %[1]q
	smudge = %[1]q
	process = %[1]q
[diff "evil"]
	command = %[1]q
	textconv = %[1]q
[diff]
	external = %[1]q
[core]
	fsmonitor = %[1]q
	hooksPath = %[2]q
	editor = %[1]q
	pager = %[1]q
[gpg]
	program = %[1]q
[commit]
	gpgSign = true
[merge]
	default = evil
	renormalize = true
`, run, home)
	for _, hook := range []string{"pre-commit", "commit-msg", "post-commit", "post-merge", "post-checkout", "reference-transaction", "post-index-change", "pre-push", "post-rewrite", "pre-rebase"} {
		require.NoError(t, os.WriteFile(filepath.Join(home, hook), []byte("#!/bin/sh\ntouch "+evil+"\n"), 0o700))
	}
	sh(t, repo, `git checkout -q -b work; printf '* merge=evil filter=evil diff=evil\n' >.gitattributes; echo w >file; git mv file renamed; seq 20 >n; git add .; git commit -qm work
		git checkout -q main; printf '* merge=evil filter=evil diff=evil\n' >.gitattributes; echo m >file; seq 21 >n; git add .; git commit -qm main`)
	require.NoError(t, os.WriteFile(filepath.Join(home, ".gitconfig"), []byte(config), 0o600))
	f, err := os.OpenFile(filepath.Join(repo, ".git/config"), os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString(config)
	require.NoError(t, errors.Join(err, f.Close()))
	env := append(os.Environ(), "HOME="+home, "XDG_CONFIG_HOME="+home, "GIT_CONFIG_SYSTEM="+filepath.Join(home, ".gitconfig"))
	g := New(env, t.TempDir())
	for _, s := range []fleet.Strategy{fleet.Squash, fleet.Rebase, fleet.Merge} {
		c := combination(t, repo, "work", s)
		r, err := g.Combine(t.Context(), repo, c)
		require.NoError(t, err)
		require.NotEmpty(t, r.Conflicts)
	}
	c := combination(t, repo, "main", fleet.Squash)
	c.Onto = revision(t, repo, "main^")
	r, err := g.Combine(t.Context(), repo, c)
	require.NoError(t, err)
	require.NotEmpty(t, r.Commit)
	_, err = g.Overlaps(t.Context(), repo, c.Onto, []fleet.Contribution{{Name: "a", Head: revision(t, repo, "main")}, {Name: "b", Head: revision(t, repo, "work")}})
	require.NoError(t, err)
	require.NoFileExists(t, evil)
}

func TestContains(t *testing.T) {
	t.Parallel()
	repo := newRepository(t)
	sh(t, repo, "git checkout -q -b work; echo w >file; git commit -qam w; git checkout -q main; git commit -q --allow-empty -m m")
	g := New(os.Environ(), t.TempDir())
	r := combine(t, repo, combination(t, repo, "work", fleet.Squash))
	sh(t, repo, "git gc -q --prune=now; ! git cat-file -e "+r.Commit)
	ok, err := g.Contains(t.Context(), repo, r.Commit, revision(t, repo, "main"))
	require.NoError(t, err)
	require.False(t, ok)
	ok, err = g.Contains(t.Context(), repo, revision(t, repo, "work"), revision(t, repo, "main^"))
	require.NoError(t, err)
	require.True(t, ok)
}

func TestOverlaps(t *testing.T) {
	t.Parallel()
	repo := newRepository(t)
	sh(t, repo, `seq 50 >n; seq 50 >"odd é"; mkdir dir; echo x >dir/x; printf 'a\0' >bin; git add .; git commit -qm base
		work() { git checkout -q -b $1 main; }
		work a; sed -i '10,12s/$/ a/; 40s/$/ a/' n; sed -i '5s/$/ a/' "odd é"; printf 'b\0' >bin; git commit -qam a
		work b; sed -i '12,14s/$/ b/; 30s/$/ b/' n; git commit -qam b
		work c; sed -i '20s/$/ c/; 40s/$/ a/' n; git commit -qam c
		work d; sed -i '5s/$/ d/' "odd é"; printf 'c\0' >bin; git commit -qam d
		work e; sed -i '25a new' n; git commit -qam e
		work f; sed -i '25a newer' n; git commit -qam f
		work g; git rm -qr dir; echo x >dir; git add .; git commit -qm g
		work h; echo y >dir/y; git add .; git commit -qm h
		work i; git mv n m; git commit -qm i
		git checkout -q main; sed -i 1s/1/one/ n; git commit -qam main`)
	var all []fleet.Contribution
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i"} {
		all = append(all, fleet.Contribution{Name: name, Head: revision(t, repo, name)})
	}
	all = append(all, fleet.Contribution{Name: "none", Head: revision(t, repo, "main")})
	g := New(os.Environ(), t.TempDir())
	found, err := g.Overlaps(t.Context(), repo, revision(t, repo, "main"), all)
	require.NoError(t, err)
	lines := func(path string, all ...[2]int) fleet.OverlapFile { return fleet.OverlapFile{Path: path, Lines: all} }
	require.Equal(t, []fleet.WorkOverlap{
		{A: "a", B: "b", Files: []fleet.OverlapFile{lines("n", [2]int{12, 12})}, Conflict: true},
		{A: "a", B: "c", Files: []fleet.OverlapFile{lines("n", [2]int{40, 40})}},
		{A: "a", B: "d", Files: []fleet.OverlapFile{lines("bin"), lines("odd é", [2]int{5, 5})}, Conflict: true},
		{A: "e", B: "f", Files: []fleet.OverlapFile{lines("n", [2]int{25, 25})}, Conflict: true},
		{A: "g", B: "h", Conflict: true},
	}, found)
}

// TestCombineManyPaths checks that Combine and Overlaps work with a few small trees that have millions of paths, or fail with a
// message if git reaches its memory limit.
func TestCombineManyPaths(t *testing.T) {
	t.Parallel()
	repo := newRepository(t)
	sh(t, repo, `
		tree=$(for i in $(seq 40); do printf '100644 blob %s\tfile%s\n' "$(git hash-object -w --stdin </dev/null)" "$i"; done | git mktree)
		for level in 1 2 3 4; do tree=$(for i in $(seq 40); do printf '040000 tree %s\tdir%s\n' "$tree" "$i"; done | git mktree); done
		git branch work "$(git commit-tree "$(printf '040000 tree %s\tmany\n100644 blob %s\tfile\n' "$tree" "$(git rev-parse HEAD:file)" | git mktree)" -p HEAD -m many)"
		git commit -q --allow-empty -m main`)
	g := New(os.Environ(), t.TempDir())
	g.memory = 256 << 20 // reached sooner than the default
	r, err := g.Combine(t.Context(), repo, combination(t, repo, "work", fleet.Squash))
	if err == nil { // otherwise, a confined git has reached its memory limit
		sh(t, repo, "git cat-file -e "+r.Commit+":many/dir1/dir1/dir1/dir1/file1")
	} else {
		_, isGitError := errors.AsType[*Error](err)
		require.True(t, isGitError, "%v", err)
	}
	sh(t, repo, "git checkout -q -b other main; echo o >file; git commit -qam o; git checkout -q -b another main; echo a >file; git commit -qam a")
	found, err := g.Overlaps(t.Context(), repo, revision(t, repo, "main"), []fleet.Contribution{
		{Name: "many", Head: revision(t, repo, "work")}, {Name: "other", Head: revision(t, repo, "other")}, {Name: "another", Head: revision(t, repo, "another")},
	})
	require.NoError(t, err)
	require.Len(t, found, 1)
	require.True(t, found[0].Conflict)
}
