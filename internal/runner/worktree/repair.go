package worktree

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"

	"fleet/internal/place/agentfile"
	"fleet/internal/runner/gitfiles"
	"fleet/internal/runner/sandbox"
)

// repair makes the tree usable for the next task: see gitfiles.Repair. It returns the commit of the agent's HEAD, or an empty text if
// only git can find it. If the tree has no git directory of its own, other programs may work in it, so repair removes only old locks.
func (t Tree) repair(ctx context.Context) (head string, err error) {
	tree := gitfiles.Tree{GitDir: t.GitDir, AllLocks: true}
	switch {
	case !t.hasOwnGitDir():
		tree = gitfiles.Tree{GitDir: filepath.Join(t.Dir, ".git")}
		if info, err := os.Lstat(tree.GitDir); err != nil || !info.IsDir() {
			return "", nil //nolint:nilerr // no repository
		}
	case agentfile.Kind(t.Dir) == agentfile.Dir:
		if tree.Link, err = t.gitFileText(); err != nil {
			return "", err
		}
		tree.Dir = t.Dir
	default: // for example, the agent's directory was removed
		return "", &fs.PathError{Op: "open", Path: t.Dir, Err: fs.ErrNotExist}
	}
	result, err := sandbox.RepairGit(ctx, tree)
	if !gitfiles.IsOID(result.Commit) {
		return "", err
	}
	return result.Commit, err
}
