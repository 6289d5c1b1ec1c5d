package worktree

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"fleet/internal/fleet"
)

// checkout is a working tree of people in which a branch is checked out.
type checkout struct {
	dir    string // the working tree
	gitDir string // its git directory
}

// checkouts returns the working trees in which the branch is checked out, also those in which it is being rebased.
func (g *Git) checkouts(ctx context.Context, repository, branch string) ([]checkout, error) {
	out, err := g.run(ctx, repository, "worktree", "list", "--porcelain", "-z")
	if err != nil {
		return nil, err
	}
	full := "refs/heads/" + branch
	var all []checkout
	for entry := range strings.SplitSeq(out, "\x00\x00") {
		lines := strings.Split(entry, "\x00")
		dir, ok := strings.CutPrefix(lines[0], "worktree ")
		if !ok || slices.Contains(lines, "bare") {
			continue
		}
		c := checkout{dir: dir, gitDir: gitDirOf(dir)}
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			continue // people have removed it
		}
		if slices.Contains(lines, "branch "+full) || c.unfinishedOperation(full) != "" {
			all = append(all, c)
		}
	}
	return all, nil
}

// unfinishedOperation returns the operation that people have begun in the working tree and not finished, or an empty string if there
// is none. If branch is set, it considers only a rebase of the branch with that full name.
func (c checkout) unfinishedOperation(branch string) string {
	for _, dir := range []string{"rebase-merge", "rebase-apply"} {
		name, err := os.ReadFile(filepath.Join(c.gitDir, dir, "head-name"))
		if err == nil && (branch == "" || strings.TrimSpace(string(name)) == branch) {
			return "rebase"
		}
	}
	if branch != "" {
		return ""
	}
	for file, what := range map[string]string{"MERGE_HEAD": "merge", "CHERRY_PICK_HEAD": "cherry-pick", "REVERT_HEAD": "revert"} {
		if _, err := os.Lstat(filepath.Join(c.gitDir, file)); err == nil {
			return what
		}
	}
	return ""
}

// busyError returns BRANCH_CHECKED_OUT for the working tree. Its text is "the branch is checked out in DIR, where", followed by the format
// with its arguments.
func (c checkout) busyError(branch, format string, args ...any) *fleet.Error {
	return fleet.Errorf(fleet.ReasonBranchCheckedOut, "the branch %q is checked out in %s, where "+format, append([]any{branch, c.dir}, args...)...).With("path", c.dir)
}
