package worktree

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"fleet/internal/place/agentfile"
	"fleet/internal/runner/gitfiles"
)

// Tree is the working copy of an agent.
type Tree struct {
	Repository string // the repository into which the agent's work is collected
	Dir        string // the working directory
	Branch     string // the agent's branch
	// GitDir is the agent's git directory. Fleet's record of the agent's refs is in a file next to it. If GitDir is
	// empty, the tree is the repository itself, which only this agent uses.
	GitDir string
	UID    string // the agent's uid
	// Settings is a git configuration that a new git directory gets in addition to that of the repository.
	Settings string
}

// Add creates the tree on its branch. A new branch starts at base. Add does not change a usable tree. If the tree is not usable, but
// its git directory exists, Add writes the files of HEAD again.
func (g *Git) Add(ctx context.Context, t Tree, base string) error {
	if t.Problem() == "" {
		return nil
	}
	_, err := os.Lstat(t.GitDir)
	isNew := err != nil
	if isNew {
		if err := t.removeDirs(); err != nil {
			return err
		}
		if err := g.createBranch(ctx, t, base); err != nil {
			return err
		}
	}
	err = t.writeGitFile()
	if err == nil {
		err = g.checkOutFiles(ctx, t, isNew)
	}
	if err != nil {
		_ = RemoveAll(t.Dir) // a partial tree would look as if the agent had deleted the other files
	}
	return err
}

// Recreate removes the tree and its git directory with all files in them, and creates the tree again like Add.
func (g *Git) Recreate(ctx context.Context, t Tree, base string) error {
	if err := t.removeDirs(); err != nil {
		return err
	}
	return g.Add(ctx, t, base)
}

// removeDirs removes the tree and its git directory.
func (t Tree) removeDirs() error {
	for _, dir := range []string{t.Dir, t.GitDir} {
		if err := RemoveAll(dir); err != nil {
			return err
		}
	}
	return nil
}

// createBranch creates the agent's branch, if it does not exist, and the agent's git directory.
func (g *Git) createBranch(ctx context.Context, t Tree, base string) error {
	if commonDir(t.Repository) == "" {
		return noRepositoryError(t.Repository)
	}
	refs, err := g.refs(ctx, t)
	if err != nil {
		return err
	}
	name := t.PublishedBranch()
	branch := "refs/heads/" + name
	commit := refs[branch].oid
	var all []refChange
	if commit == "" {
		if commit, err = g.startCommit(ctx, t.Repository, base, refs); err != nil {
			return err
		}
		all = append(all, refChange{name: branch, oid: commit})
	}
	// This ref keeps the objects that the agent needs, whatever happens to the repository's branches.
	all = append(all, refChange{name: agentRefPrefix(t.UID) + "base", oid: commit})
	if err := g.updateRefs(ctx, t.Repository, all...); err != nil {
		return err
	}
	if err := g.fetchMissing(ctx, t.Repository, commit); err != nil {
		return err
	}
	delete(refs, branch)
	return g.initGitDir(ctx, t, refs, publishedBranch{name, commit})
}

// writeGitFile creates the directory of the tree, and its file .git, which names the git directory.
func (t Tree) writeGitFile() error {
	text, err := t.gitFileText()
	if err == nil {
		err = os.MkdirAll(t.Dir, 0o700)
	}
	if err != nil {
		return err
	}
	tmp := t.GitDir + ".link" // writing .git directly would follow a symbolic link that the agent has created there
	if err := os.WriteFile(tmp, []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, filepath.Join(t.Dir, ".git"))
}

// gitFileText returns the content of the file .git of the tree.
func (t Tree) gitFileText() (string, error) {
	to, err := filepath.Rel(t.Dir, t.GitDir)
	return "gitdir: " + to + "\n", err
}

// checkOutFiles writes the files of HEAD into the tree. If isNew is set, the agent has not worked there yet, so git is not
// confined and filters may fetch large files.
func (g *Git) checkOutFiles(ctx context.Context, t Tree, isNew bool) error {
	v, err := g.openAgentTree(ctx, t)
	if err != nil {
		return err
	}
	defer v.close()
	v.policy.Write = append(v.policy.Write, t.Dir, t.GitDir)
	if isNew {
		v.policy = nil
	}
	if source, ok := g.sources.Load(t.Repository); ok {
		plain, env := withoutPassword(source.(string))
		v.env = append(v.env, env...)
		if _, err := v.run(ctx, "config", "remote.origin.url", plain); err != nil {
			return err
		}
	}
	_, err = v.run(ctx, "read-tree", "--reset", "-u", "--no-recurse-submodules", "HEAD") // changes no ref, unlike reset
	return err
}

// Problem returns why nobody can work in the tree, or an empty text if the tree is usable. It is cheap, because it only
// checks that files exist. It does not detect damage inside the git directory.
func (t Tree) Problem() string {
	if info, err := os.Stat(t.Dir); err != nil || !info.IsDir() {
		return "its directory " + t.Dir + " no longer exists"
	}
	if t.Dir == t.Repository && agentfile.Kind(filepath.Join(t.Dir, ".git")) == agentfile.Dir {
		return "" // a clone that only this agent uses
	}
	dir := t.GitDir
	link := agentfile.Kind(filepath.Join(t.Dir, ".git"))
	if !t.hasOwnGitDir() {
		if dir = readGitFile(t.Dir); dir == "" {
			link = agentfile.Other
		}
	}
	if link != agentfile.File && (link != agentfile.Missing || !t.hasOwnGitDir()) { // repair creates a missing link
		return "its directory " + t.Dir + " is no longer a git worktree"
	}
	if commonDir(t.Repository) == "" {
		return "its repository " + t.Repository + " no longer exists"
	}
	if agentfile.Kind(filepath.Join(dir, "HEAD")) == agentfile.Missing {
		return "the git directory " + dir + " of its directory " + t.Dir + " no longer exists"
	}
	return ""
}

// headCommit returns the commit of HEAD and the tree of that commit. Both are empty if HEAD has no commit.
func (v *view) headCommit(ctx context.Context) (commit, tree string) {
	out, err := v.run(ctx, "rev-parse", "HEAD^{commit}", "HEAD^{tree}")
	commit, tree, _ = strings.Cut(out, "\n")
	if err != nil || !gitfiles.IsOID(commit) || !gitfiles.IsOID(tree) {
		return "", ""
	}
	return commit, tree
}

// countCommits returns the number of commits that rev-list lists for the arguments. It ignores missing commits after --not,
// because people's repositories may have refs to such commits.
func (v *view) countCommits(ctx context.Context, args ...string) (int, error) {
	if i := slices.Index(args, "--not"); i >= 0 {
		args = slices.Insert(slices.Clone(args), i+1, "--ignore-missing")
	}
	out, err := v.run(ctx, append([]string{"rev-list", "--count"}, args...)...)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(out)
}

// Remove removes the tree and its git directory. Call it after Examine has found that the repository has all of the tree's work. keep
// is Work.Branches. Remove also removes the tree's branch, unless keep names the branch, the branch has commits of its own now, or it
// is checked out. Remove succeeds if neither the tree nor the branch exists.
func (g *Git) Remove(ctx context.Context, t Tree, keep []string) error {
	branch := t.PublishedBranch()
	if err := t.removeDirs(); err != nil {
		return err
	}
	if err := g.pruneWorktrees(ctx, t.Repository); err != nil {
		return err
	}
	// The deletion may continue long after Examine, and people may have committed to the branch meanwhile.
	if _, now, err := g.Commits(ctx, t); err == nil && !slices.Contains(append(now, keep...), branch) {
		// This fails if the branch is checked out elsewhere. Then the branch stays.
		_, _ = g.run(ctx, t.Repository, "branch", "--quiet", "-D", branch)
	}
	return ctx.Err()
}

// pruneWorktrees removes worktrees that no longer exist from the repository's list.
func (g *Git) pruneWorktrees(ctx context.Context, repository string) error {
	if entries, err := os.ReadDir(filepath.Join(commonDir(repository), "worktrees")); err != nil || len(entries) == 0 {
		return nil //nolint:nilerr // the repository has no worktrees
	}
	unlock, err := g.lock(ctx, repository)
	if err != nil {
		return err
	}
	defer unlock()
	_, err = g.run(ctx, repository, "worktree", "prune")
	return err
}
