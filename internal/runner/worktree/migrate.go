package worktree

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Migrate gives a worktree of an earlier version its own git directory. Such a worktree writes into the repository. No
// program may run in the tree. Migrate does nothing if the tree is already migrated, and completes an interrupted
// migration.
func (g *Git) Migrate(ctx context.Context, t Tree) error {
	link := readLink(t.Dir)
	common := commonDir(t.Repository)
	if link == "" || common == "" || filepath.Dir(link) != filepath.Join(common, "worktrees") {
		return nil
	}
	if !t.separate() {
		have, err := g.refs(ctx, t)
		if err != nil {
			return err
		}
		dir, err := g.newGitDir(ctx, t, have)
		if err != nil {
			return err
		}
		if err := copyOwn(link, dir); err != nil {
			return err
		}
		branch := "refs/heads/" + t.Branch
		k := &refRecord{Given: have.given(t.UID), Published: map[string]published{}}
		delete(k.Given, branch)
		head, err := g.run(ctx, t.Dir, "rev-parse", "--verify", "HEAD")
		if err != nil {
			return err
		}
		if oid := have[branch].oid; oid != "" {
			k.Published[t.Branch] = published{t.Branch, oid}
			if err := writeNew(filepath.Join(dir, branch), oid+"\n"); err != nil {
				return err
			}
		}
		if err := g.updateRefs(ctx, t.Repository, update{name: AgentRefs(t.UID) + "base", oid: head}); err != nil {
			return err
		}
		if err := t.writeRecord(k); err != nil {
			return err
		}
		if err := os.Rename(dir, t.GitDir); err != nil {
			return err
		}
	}
	if err := t.relink(link); err != nil {
		return err
	}
	if err := t.link(); err != nil {
		return err
	}
	return RemoveAll(link)
}

// copyOwn copies the files of the worktree's own git directory: HEAD, the index, a merge or rebase in progress, and
// submodules.
func copyOwn(from, to string) error {
	in, err := os.OpenRoot(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	return fs.WalkDir(in.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, path), 0o700)
		case !d.Type().IsRegular() || path == "commondir" || path == "gitdir" || path == "locked" || strings.HasSuffix(path, ".lock"):
			return nil
		}
		r, err := in.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
		if err != nil {
			return err
		}
		defer func() { _ = r.Close() }()
		w, err := os.OpenFile(filepath.Join(to, path), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
		if err != nil {
			return err
		}
		_, err = io.Copy(w, r)
		return errors.Join(err, w.Close())
	})
}

// relink updates the links between the tree's submodules and their repositories, which have moved from the git
// directory from into t.GitDir. It writes nothing outside the tree, because the agent could have created symbolic
// links.
func (t Tree) relink(from string) error {
	root, err := os.OpenRoot(t.Dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	modules := filepath.Join(from, "modules") + string(filepath.Separator)
	return fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != ".git" || path == ".git" || !d.Type().IsRegular() {
			return nil //nolint:nilerr // skip broken submodules
		}
		old := readLink(filepath.Join(t.Dir, filepath.Dir(path)))
		name, ok := strings.CutPrefix(old, modules)
		if !ok {
			return nil
		}
		now := filepath.Join(t.GitDir, "modules", name)
		to, err := filepath.Rel(filepath.Join(t.Dir, filepath.Dir(path)), now)
		if err != nil {
			return err
		}
		if err := root.Remove(path); err != nil {
			return err
		}
		if err := root.WriteFile(path, []byte("gitdir: "+to+"\n"), 0o600); err != nil {
			return err
		}
		return t.moveModule(name, filepath.Join(t.Dir, filepath.Dir(path)))
	})
}

// moveModule updates the path of the working tree in a submodule's repository.
func (t Tree) moveModule(name, dir string) error {
	root, err := os.OpenRoot(t.GitDir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	config := filepath.Join("modules", name, "config")
	f, err := root.OpenFile(config, os.O_WRONLY|os.O_APPEND|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil //nolint:nilerr // the submodule was never checked out
	}
	_, err = f.WriteString("[core]\n\tworktree = " + quoteConfig(dir) + "\n") // the last value counts
	return errors.Join(err, f.Close())
}
