package worktree

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

// TestMain lets the test binary also be a process that moves a branch.
func TestMain(m *testing.M) {
	if len(os.Args) > 6 && os.Args[1] == "move" {
		err := New(append(os.Environ(), authorEnv...), os.Args[6]).Move(context.Background(), os.Args[2], fleet.Branch{Name: os.Args[3], Commit: os.Args[4]}, os.Args[5])
		if err != nil {
			panic(err)
		}
		return
	}
	os.Exit(m.Run())
}

// TestMoveKilled kills a process at many moments while it moves a branch that people have checked out. Their files must never
// look as if they had reverted the landed work. The next call must complete the move without touching the changes of people.
func TestMoveKilled(t *testing.T) {
	t.Parallel()
	repo, b, to := checkedOutRepo(t, "mkdir d e; for i in $(seq 80); do seq 500 >d/$i; echo $i >e/$i; done", "for i in $(seq 80); do seq 700 >d/$i; echo new >n$i; done; git rm -rq e; seq 99 >e")
	sh(t, repo, "echo mine >mine; echo changed >file")
	const want = " M file\n?? mine\n"
	killed, partial, survivors := 0, 0, 0
	undo := func() { sh(t, repo, "git stash -q; git reset -q --hard "+b.Commit+"; git stash pop -q") }
	mark := filepath.Join(repo, ".git", "fleet-move")
	for killAfter := time.Duration(0); ; killAfter += killAfter + 2*time.Millisecond {
		cmd := exec.Command(os.Args[0], "move", repo, b.Name, b.Commit, to, t.TempDir())
		cmd.Stderr = os.Stderr
		require.NoError(t, cmd.Start())
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		var err error
		for begun := (time.Time{}); ; runtime.Gosched() {
			if _, markErr := os.Lstat(mark); begun.IsZero() && markErr == nil {
				begun = time.Now()
			}
			if !begun.IsZero() && time.Since(begun) >= killAfter {
				_ = cmd.Process.Kill()
				err = <-ended
				break
			}
			if len(ended) > 0 {
				err = <-ended
				break
			}
		}
		status := sh(t, repo, `while pgrep -f "git -C $PWD " >/dev/null; do :; done; git status --porcelain`) // git ends after its parent
		if err == nil {
			require.Equal(t, want, status)
			if survivors++; partial > 0 || survivors == 10 {
				break
			}
			killAfter = 0 // a slow machine has killed all others before or after their work
			undo()
			continue
		}
		killed++
		if revision(t, repo, "main") == to {
			require.Equal(t, want, status, "after %s", killAfter)
		} else {
			if status != want {
				partial++
			}
			require.NoError(t, New(os.Environ(), t.TempDir()).Move(t.Context(), repo, b, to), "after %s", killAfter)
			require.Equal(t, want, sh(t, repo, "git status --porcelain"), "after %s", killAfter)
		}
		require.Equal(t, to, revision(t, repo, "main"))
		require.NoError(t, New(os.Environ(), t.TempDir()).Move(t.Context(), repo, b, to))
		require.NoFileExists(t, mark)
		require.NoFileExists(t, filepath.Join(repo, ".git", "index.lock"))
		undo()
	}
	require.NotZero(t, partial, "no kill has left only some of the files written")
	t.Logf("killed %d times, %d of them with some of the files written", killed, partial)
}

// TestMoveRollsBack checks that Move first rolls back an interrupted update. It restores files with the new content or the beginning of
// it, and missing files. Any other changed file is a reason to refuse.
func TestMoveRollsBack(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ script, file string }{
		"some are written":    {"git show later:a >a; git show later:new >new; rm gone", ""},
		"a part of a file":    {"git show later:a | head -c 20 >a; : >new", ""},
		"a file is missing":   {"rm a; rm -r d; echo file >d", ""},
		"all and the index":   {"git read-tree -m -u main later", ""},
		"people have changed": {"git show later:new >new; echo theirs >a", "a"},
		"changed and indexed": {"git read-tree -m -u main later; echo theirs >a", "a"},
		"locks":               {"git show later:a >a; touch .git/refs/heads/main.lock .git/HEAD.lock; touch -d '1 minute ago' .git/*.lock .git/refs/heads/*.lock", ""},
		"another branch":      {"git show later:a >a; sed -i s/main/other/ .git/fleet-move", "a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			repo, b, to := checkedOutRepo(t, "seq 100 >a; echo gone >gone; mkdir d; echo x >d/x", "seq 50 150 >a; echo new >new; git rm -q gone; git rm -rq d; echo file >d")
			require.NoError(t, checkout{repo, filepath.Join(repo, ".git")}.mark(moveMark{"main", b.Commit, to}))
			sh(t, repo, tc.script)
			err := New(os.Environ(), t.TempDir()).Move(t.Context(), repo, b, to)
			if tc.file != "" {
				require.Equal(t, fleet.ReasonBranchCheckedOut, reasonOf(err), "%v", err)
				require.ErrorContains(t, err, tc.file)
				require.Equal(t, b.Commit, revision(t, repo, "main"))
				return
			}
			require.NoError(t, err)
			require.Empty(t, sh(t, repo, "git status --porcelain"))
			require.Equal(t, to, revision(t, repo, "main"))
			require.NoFileExists(t, filepath.Join(repo, ".git", "fleet-move"))
		})
	}
}
