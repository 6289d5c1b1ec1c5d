package worktree

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"fleet/internal/place/agentfile"
)

// Tree is a worktree.
type Tree struct {
	Repository string // where it belongs to
	Dir        string // where it is
	Branch     string // its own
}

// Add makes the worktree, on its branch, which begins at base unless there is one already. A worktree that is there is
// left as it is; with broken set, one that is not whole is made anew: say so when nobody has worked in it yet.
func (g *Git) Add(ctx context.Context, t Tree, base string, broken bool) error {
	defer g.lock(t.Repository)()
	if t.Trouble() == "" && !broken {
		return nil
	}
	if broken {
		_, _ = g.run(ctx, t.Repository, "worktree", "remove", "--force", "--force", t.Dir)
		if err := RemoveAll(t.Dir); err != nil {
			return err
		}
	}
	if _, err := g.run(ctx, t.Repository, "worktree", "prune"); err != nil {
		return err
	}
	// Forced twice: what is left of an earlier try, which was cut off, counts as a locked worktree.
	args := []string{"worktree", "add", "--quiet", "--no-checkout", "--force", "--force"}
	if g.hasBranch(ctx, t) {
		args = append(args, t.Dir, t.Branch)
	} else {
		commit, err := g.base(ctx, t.Repository, base)
		if err != nil {
			return err
		}
		args = append(args, "--no-track", "-b", t.Branch, t.Dir, commit)
	}
	if _, err := g.run(ctx, t.Repository, args...); err != nil {
		return err
	}
	if err := g.checkout(ctx, t); err != nil {
		_ = RemoveAll(t.Dir) // half of it would look like work that deleted the rest
		return err
	}
	return nil
}

// checkout writes the files of a new worktree.
func (g *Git) checkout(ctx context.Context, t Tree) error {
	v, err := g.view(ctx, t.Dir, true)
	if err != nil {
		return err
	}
	defer v.close()
	if source, ok := g.sources.Load(t.Repository); ok { // a filter for large files may have to fetch them
		if _, err := v.run(ctx, "config", "remote.origin.url", source.(string)); err != nil {
			return err
		}
	}
	_, err = v.run(ctx, "read-tree", "--reset", "-u", "--no-recurse-submodules", "HEAD") // touches no ref, unlike reset
	return err
}

func (g *Git) hasBranch(ctx context.Context, t Tree) bool {
	_, err := g.read(ctx, t.Repository, "show-ref", "--verify", "--quiet", "refs/heads/"+t.Branch)
	return err == nil
}

// maxLink is the longest file that says where git keeps a worktree's own files, in bytes.
const maxLink = 64 << 10

// Trouble says in words why nobody can work in the worktree; empty when one can. It only looks at files, so it is
// cheap, and sees what happens to directories, not what happens inside git's.
func (t Tree) Trouble() string {
	if info, err := os.Stat(t.Dir); err != nil || !info.IsDir() {
		return "its directory " + t.Dir + " is gone"
	}
	link, err := agentfile.Read(filepath.Join(t.Dir, ".git"), maxLink)
	if err != nil {
		return "its directory " + t.Dir + " is no git worktree any more"
	}
	dir := strings.TrimSpace(strings.TrimPrefix(string(link), "gitdir:"))
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(t.Dir, dir)
	}
	if _, err := os.Stat(filepath.Join(dir, "HEAD")); err != nil {
		return "the repository " + t.Repository + " does not know its worktree " + t.Dir + " any more"
	}
	return ""
}

// Work is what is in a worktree and nowhere else.
type Work struct {
	Uncommitted bool // changes, or commits on no branch: lost with the directory
	Commits     int  // on its branch alone: lost with the branch
}

// Work finds out what would be lost with the worktree.
func (g *Git) Work(ctx context.Context, t Tree) (Work, error) {
	var w Work
	v, err := g.view(ctx, t.Dir, true)
	if err != nil {
		return w, err
	}
	defer v.close()
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
	w.Commits, err = g.Commits(ctx, t)
	return w, err
}

// maxNested is how deep submodules are looked into.
const maxNested = 8

// changed says whether the working tree has changes that are not committed, also in its submodules. git would look into
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
		inner, err := v.git.view(ctx, dir, true)
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

// Commits counts the commits that are on the tree's branch and no other.
func (g *Git) Commits(ctx context.Context, t Tree) (int, error) {
	if !g.hasBranch(ctx, t) {
		return 0, ctx.Err()
	}
	v, err := g.view(ctx, t.Repository, false)
	if err != nil {
		return 0, err
	}
	defer v.close()
	return v.count(ctx, "refs/heads/"+t.Branch, "--not", "--exclude="+t.Branch, "--branches", "--remotes", "--tags")
}

func (v *view) count(ctx context.Context, args ...string) (int, error) {
	out, err := v.run(ctx, append([]string{"rev-list", "--count"}, args...)...)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(out)
}

// Move moves the worktree to another directory. One that is there already is no error.
func (g *Git) Move(ctx context.Context, t Tree, to string) error {
	defer g.lock(t.Repository)()
	if _, err := os.Stat(t.Dir); os.IsNotExist(err) {
		if _, err := os.Stat(to); err == nil {
			_, err := g.run(ctx, t.Repository, "worktree", "repair", to)
			return err
		}
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	if _, err := g.run(ctx, t.Repository, "worktree", "move", t.Dir, to); err == nil || ctx.Err() != nil {
		return err
	}
	// git does not move one that has submodules; moved by hand, it only has to be told.
	if err := os.Rename(t.Dir, to); err != nil {
		return err
	}
	if _, err := g.run(ctx, t.Repository, "worktree", "repair", to); err != nil {
		return err
	}
	return g.relink(ctx, to)
}

// relink makes the submodules of a worktree that was moved by hand find their repositories again, and the other way round.
func (g *Git) relink(ctx context.Context, dir string) error {
	modules, err := g.run(ctx, dir, "config", "--file", ".gitmodules", "--get-regexp", `^submodule\..*\.path$`)
	if err != nil {
		return ctx.Err() // none
	}
	own, err := g.run(ctx, dir, "rev-parse", "--absolute-git-dir")
	if err != nil {
		return err
	}
	for line := range strings.Lines(modules) {
		key, path, _ := strings.Cut(strings.TrimSpace(line), " ")
		name := strings.TrimSuffix(strings.TrimPrefix(key, "submodule."), ".path")
		repository := filepath.Join(own, "modules", name)
		if _, err := os.Stat(repository); err != nil || !filepath.IsLocal(name) || !filepath.IsLocal(path) {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, path, ".git"), []byte("gitdir: "+repository+"\n"), 0o600); err != nil {
			return err
		}
		if _, err := g.run(ctx, own, "config", "--file", filepath.Join(repository, "config"), "core.worktree", filepath.Join(dir, path)); err != nil {
			return err
		}
	}
	return nil
}

// Remove removes the worktree with everything in it, and its branch unless that has commits of its own. What is gone
// already is no error.
func (g *Git) Remove(ctx context.Context, t Tree) error {
	defer g.lock(t.Repository)()
	_, _ = g.run(ctx, t.Repository, "worktree", "remove", "--force", "--force", t.Dir)
	if err := RemoveAll(t.Dir); err != nil {
		return err
	}
	if _, err := g.run(ctx, t.Repository, "worktree", "prune"); err != nil {
		return err
	}
	n, err := g.Commits(ctx, t)
	if err != nil {
		return err
	}
	if n == 0 && g.hasBranch(ctx, t) {
		// In vain when somebody has checked it out elsewhere: then it is theirs.
		_, _ = g.run(ctx, t.Repository, "branch", "--quiet", "-D", t.Branch)
	}
	return ctx.Err()
}
