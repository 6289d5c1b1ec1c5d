package worktree

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Tree is the working copy of an agent.
type Tree struct {
	Repository string // where its work is collected
	Dir        string // where it is
	Branch     string // its own
	// GitDir is the agent's git directory. What Fleet knows of it is in a file beside it. Empty, or not there: the tree belongs to
	// the repository itself, such as a worktree of an earlier version.
	GitDir string
	UID    string // of the agent
}

// Add makes the tree, on its branch, which begins at base unless there is one already. A tree that is there is left as it is;
// with broken set, one that is not whole is made anew: say so when nobody has worked in it yet.
func (g *Git) Add(ctx context.Context, t Tree, base string, broken bool) error {
	if t.Trouble() == "" && !broken {
		return nil
	}
	fresh := broken || !t.separate()
	if fresh {
		for _, dir := range []string{t.Dir, t.GitDir} {
			if err := RemoveAll(dir); err != nil {
				return err
			}
		}
		if err := g.begin(ctx, t, base); err != nil {
			return err
		}
	}
	err := t.link()
	if err == nil {
		err = g.checkout(ctx, t, fresh)
	}
	if err != nil {
		_ = RemoveAll(t.Dir) // half of it would look like work that deleted the rest
	}
	return err
}

// begin makes the agent's branch and its git directory.
func (g *Git) begin(ctx context.Context, t Tree, base string) error {
	if commonDir(t.Repository) == "" {
		return noRepository(t.Repository)
	}
	have, err := g.refs(ctx, t)
	if err != nil {
		return err
	}
	branch := "refs/heads/" + t.Branch
	commit := have[branch].oid
	var all []update
	if commit == "" {
		if commit, err = g.base(ctx, t.Repository, base); err != nil {
			return err
		}
		all = append(all, update{name: branch, oid: commit})
	}
	// Whatever becomes of the repository's branches, it keeps what the agent borrows for its work.
	all = append(all, update{name: AgentRefs(t.UID) + "base", oid: commit})
	if err := g.updateRefs(ctx, t.Repository, all...); err != nil {
		return err
	}
	return g.found(ctx, t, have, commit)
}

// link makes the directory of the tree, and lets it find its git directory.
func (t Tree) link() error {
	to, err := filepath.Rel(t.Dir, t.GitDir)
	if err == nil {
		err = os.MkdirAll(t.Dir, 0o700)
	}
	if err != nil {
		return err
	}
	tmp := t.GitDir + ".link" // the agent may have put something into the place of the link
	if err := os.WriteFile(tmp, []byte("gitdir: "+to+"\n"), 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, filepath.Join(t.Dir, ".git"))
}

// checkout writes the files of a tree that has none. When nobody has worked in it, filters for large files may fetch them.
func (g *Git) checkout(ctx context.Context, t Tree, fresh bool) error {
	v, err := g.open(t)
	if err != nil {
		return err
	}
	defer v.close()
	v.policy.Write = append(v.policy.Write, t.Dir, t.GitDir)
	if fresh {
		v.policy = nil
	}
	if source, ok := g.sources.Load(t.Repository); ok {
		if _, err := v.run(ctx, "config", "remote.origin.url", source.(string)); err != nil {
			return err
		}
	}
	_, err = v.run(ctx, "read-tree", "--reset", "-u", "--no-recurse-submodules", "HEAD") // touches no ref, unlike reset
	return err
}

// maxLink is the longest file that says where git keeps a worktree's own files, in bytes.
const maxLink = 64 << 10

// Trouble says in words why nobody can work in the tree; empty when one can. It only looks at files, so it is cheap, and
// sees what happens to directories, not what happens inside git's.
func (t Tree) Trouble() string {
	if info, err := os.Stat(t.Dir); err != nil || !info.IsDir() {
		return "its directory " + t.Dir + " is gone"
	}
	if info, err := os.Lstat(filepath.Join(t.Dir, ".git")); err == nil && info.IsDir() && t.Dir == t.Repository {
		return "" // a clone that the agent has for itself
	}
	dir := readLink(t.Dir)
	if dir == "" {
		return "its directory " + t.Dir + " is no longer a git worktree"
	}
	if commonDir(t.Repository) == "" {
		return "its repository " + t.Repository + " is gone"
	}
	if t.separate() {
		dir = t.GitDir
	}
	if _, err := os.Stat(filepath.Join(dir, "HEAD")); err != nil {
		return "the git directory " + dir + " of its directory " + t.Dir + " is gone"
	}
	return ""
}

// Work is what is in a tree and nowhere else.
type Work struct {
	Uncommitted bool // changes, or commits on no branch: lost with the directory
	Commits     int  // on its branch alone: lost with the branch
}

// Work collects the agent's commits and finds out what would be lost with the tree.
func (g *Git) Work(ctx context.Context, t Tree) (Work, error) {
	var w Work
	v, err := g.look(t)
	if err != nil {
		return w, err
	}
	defer v.close()
	if t.separate() {
		head, _ := v.headNow(ctx)
		if _, err := g.collect(ctx, t, v, head); err != nil {
			return w, err
		}
	}
	if w.Uncommitted, err = v.changed(ctx, 0); err != nil {
		return w, err
	}
	if _, err := v.run(ctx, "symbolic-ref", "--quiet", "HEAD"); err != nil { // on no branch
		n, err := v.count(ctx, "HEAD", "--not", "--branches", "--remotes", "--tags")
		if err != nil {
			return w, err
		}
		w.Uncommitted = w.Uncommitted || n > 0
	}
	if w.Commits, err = g.commits(ctx, t); err != nil || w.Commits == 0 || !t.separate() {
		return w, err
	}
	// The agent's git knows what it pushed, and the repository's does not.
	ahead, err := v.count(ctx, "refs/heads/"+t.Branch, "--not", "--remotes")
	w.Commits = min(w.Commits, ahead)
	return w, err
}

// headNow returns the commit that the tree is on, and its tree; empty if it is on none.
func (v *view) headNow(ctx context.Context) (commit, tree string) {
	out, err := v.run(ctx, "rev-parse", "HEAD^{commit}", "HEAD^{tree}")
	commit, tree, _ = strings.Cut(out, "\n")
	if err != nil || !oidPattern.MatchString(commit) || !oidPattern.MatchString(tree) {
		return "", ""
	}
	return commit, tree
}

// maxNested is how deep submodules are looked into.
const maxNested = 8

// changed reports whether the working tree has changes that are not committed, also in its submodules. git would look into
// these with their own configuration, so each gets a view of its own.
func (v *view) changed(ctx context.Context, depth int) (bool, error) {
	status, err := v.run(ctx, "status", "--porcelain", "--untracked-files=normal", "--ignore-submodules=dirty")
	if err != nil || status != "" {
		return status != "", err
	}
	entries, err := v.run(ctx, "ls-files", "--stage", "-z")
	if err != nil {
		return false, err
	}
	for e := range strings.SplitSeq(entries, "\x00") {
		meta, path, _ := strings.Cut(e, "\t")
		if !strings.HasPrefix(meta, "160000 ") || !filepath.IsLocal(path) {
			continue
		}
		dir := filepath.Join(v.dir, path)
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err != nil {
			continue // not checked out
		}
		if depth == maxNested {
			return true, nil // rather too much is kept than too little
		}
		own := gitDirOf(dir)
		inner, err := v.git.viewOf(v.policy, dir, commonOf(own), own, true)
		if err != nil {
			return false, err
		}
		changed, err := inner.changed(ctx, depth+1)
		inner.close()
		if err != nil || changed {
			return changed, err
		}
	}
	return false, nil
}

// Commits collects the agent's commits, and counts those that are on its branch and no other.
func (g *Git) Commits(ctx context.Context, t Tree) (int, error) {
	if t.separate() {
		if _, err := g.gather(ctx, t); err != nil {
			return 0, err
		}
	}
	return g.commits(ctx, t)
}

// commits counts the commits that the repository has on the tree's branch and no other.
func (g *Git) commits(ctx context.Context, t Tree) (int, error) {
	v, err := g.view(t.Repository, false)
	if err != nil {
		return 0, err
	}
	defer v.close()
	if !v.has(ctx, "refs/heads/"+t.Branch) {
		return 0, ctx.Err()
	}
	return v.count(ctx, "refs/heads/"+t.Branch, "--not", "--exclude="+t.Branch, "--branches", "--remotes", "--tags")
}

// has reports whether there is a ref of the name.
func (v *view) has(ctx context.Context, ref string) bool {
	_, err := v.run(ctx, "show-ref", "--verify", "--quiet", ref)
	return err == nil
}

func (v *view) count(ctx context.Context, args ...string) (int, error) {
	out, err := v.run(ctx, append([]string{"rev-list", "--count"}, args...)...)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(out)
}

// Remove removes the tree with everything in it, and its branch unless that has commits of its own. What is gone already is
// no error.
func (g *Git) Remove(ctx context.Context, t Tree) error {
	pushed := false
	if t.separate() {
		w, err := g.Work(ctx, t)
		pushed = err == nil && w.Commits == 0 // what git cannot tell is kept
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := RemoveAll(t.GitDir); err != nil {
			return err
		}
		if err := os.RemoveAll(t.knownFile()); err != nil {
			return err
		}
	}
	if err := RemoveAll(t.Dir); err != nil {
		return err
	}
	if err := g.prune(ctx, t.Repository); err != nil {
		return err
	}
	n, err := g.commits(ctx, t)
	if err != nil {
		return err
	}
	if n == 0 || pushed {
		// In vain when somebody has checked it out elsewhere: then it is theirs.
		_, _ = g.run(ctx, t.Repository, "branch", "--quiet", "-D", t.Branch)
	}
	return ctx.Err()
}

// prune makes the repository forget worktrees that are gone.
func (g *Git) prune(ctx context.Context, repository string) error {
	if entries, err := os.ReadDir(filepath.Join(commonDir(repository), "worktrees")); err != nil || len(entries) == 0 {
		return nil //nolint:nilerr // it has none
	}
	defer g.lock(repository)()
	_, err := g.run(ctx, repository, "worktree", "prune")
	return err
}
