package worktree

import (
	"context"
	"os"
	"path/filepath"
	"slices"

	"fleet/internal/runner/gitfiles"
)

// CleanTree creates a tree with the files of the commit, and nothing else. It replaces an existing tree. The tree has a git
// directory of its own with HEAD at the commit and the repository's branches and tags, but without its remotes and hooks,
// and without settings that name programs. Changes there do not affect the repository. No filter runs, so the tree has only the
// pointers of Git LFS files.
func (g *Git) CleanTree(ctx context.Context, t Tree, commit string) error {
	common := commonDir(t.Repository)
	if common == "" {
		return noRepositoryError(t.Repository)
	}
	if err := g.RequireCommit(ctx, t.Repository, commit); err != nil {
		return err
	}
	if err := g.fetchMissing(ctx, t.Repository, commit); err != nil {
		return err
	}
	refs, err := g.refs(ctx, t)
	if err != nil {
		return err
	}
	commonInfo, err := gitfiles.Read(common)
	if err != nil {
		return err
	}
	settings := slices.DeleteFunc(commonInfo.Settings, isSharedRepository)
	dir, err := t.makeGitDir(common, viewConfig(settings, false), refs)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "HEAD"), []byte(commit+"\n"), 0o600)
	}
	if err == nil {
		err = RemoveAll(t.Dir)
	}
	if err == nil {
		err = os.Rename(dir, t.GitDir)
	}
	if err == nil {
		err = t.writeGitFile()
	}
	if err != nil {
		return err
	}
	v, err := g.openAgentTree(ctx, t)
	if err != nil {
		return err
	}
	defer v.close()
	v.policy.Write = append(v.policy.Write, t.Dir, t.GitDir)
	v.env = append(v.env, isolatedEnv...)
	_, err = v.run(ctx, "read-tree", "--reset", "-u", "--no-recurse-submodules", "HEAD")
	return err
}
