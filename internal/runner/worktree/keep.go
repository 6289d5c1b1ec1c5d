package worktree

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"fleet/internal/place/agentfile"
)

// keptGitName is the new name of the agent's git directories in a tree that is kept. With this name, git does not read
// their configuration when people work in the tree.
const keptGitName = ".git-of-agent"

// Move converts the tree to a worktree of its repository in the directory to, with the agent's changes, index and
// merge. It is safe to work in the worktree, because git does not use the agent's configuration there. Move can be
// repeated after an interruption.
func (g *Git) Move(ctx context.Context, t Tree, to string) error {
	if !t.separate() {
		return g.repair(ctx, t, to)
	}
	v, err := g.open(t)
	if err != nil {
		return err
	}
	defer v.close()
	index, objects, err := v.readIndex(ctx)
	if err != nil {
		return err
	}
	head, _ := v.headNow(ctx)
	have, err := g.collect(ctx, t, v, append(objects, head)...)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(filepath.Join(to, ".git")); err != nil {
		if err := g.worktree(ctx, t, to, v.head, head, have); err != nil {
			return err
		}
	}
	if err := moveFiles(t.Dir, to); err != nil {
		return err
	}
	if err := hideSubmodules(to, index); err != nil {
		return err
	}
	if _, err := g.run(ctx, to, "read-tree", "--empty"); err != nil {
		return err
	}
	if err := g.pipe(ctx, nil, nil, to, bytes.NewReader(index), nil, "update-index", "-z", "--index-info"); err != nil {
		return err
	}
	if err := g.keepMerge(ctx, t, to); err != nil {
		return err
	}
	return t.discard(to)
}

// repair completes a move that was interrupted after the files were moved. It fails if there was no such move.
func (g *Git) repair(ctx context.Context, t Tree, to string) error {
	if commonDir(t.Repository) == "" || readLink(to) == "" {
		return &Error{Message: "there is no git directory for " + t.Dir}
	}
	return RemoveAll(t.Dir)
}

// readIndex returns the agent's index in the input format of update-index, and the objects in it.
func (v *view) readIndex(ctx context.Context) (index []byte, objects []string, err error) {
	var out bytes.Buffer
	if err := v.pipe(ctx, nil, &out, "ls-files", "--stage", "-z"); err != nil {
		return nil, nil, err
	}
	for e := range strings.SplitSeq(out.String(), "\x00") { // 100644 sha1 0<tab>path
		if f := strings.Fields(e); len(f) > 2 && f[0] != gitlink && oidPattern.MatchString(f[1]) {
			objects = append(objects, f[1])
		}
	}
	return out.Bytes(), objects, nil
}

const gitlink = "160000" // the mode of a submodule

// worktree creates a worktree of the repository without files, at the commit head. at is the content of the agent's
// HEAD. If the branch that it names is at the same commit in the repository, the worktree is on that branch.
func (g *Git) worktree(ctx context.Context, t Tree, to, at, head string, have refSet) error {
	args := []string{"worktree", "add", "--quiet", "--no-checkout", "--force", "--force"}
	branch, on := strings.CutPrefix(at, "ref: refs/heads/")
	k, err := t.readRecord()
	if err != nil {
		return err
	}
	name := k.Published[branch].Name
	switch {
	case head == "" && have["refs/heads/"+t.Branch].oid != "":
		args = append(args, to, t.Branch)
	case on && name != "" && have["refs/heads/"+name].oid == head:
		args = append(args, to, name)
	default:
		args = append(args, "--detach", to, head)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	if err := g.prune(ctx, t.Repository); err != nil {
		return err
	}
	defer g.lock(t.Repository)()
	_, err = g.run(ctx, t.Repository, args...)
	return err
}

// moveFiles moves all files except the link to the git directory.
func moveFiles(from, to string) error {
	entries, err := agentfile.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() == ".git" {
			continue
		}
		if err := moveEntry(filepath.Join(from, e.Name()), filepath.Join(to, e.Name()), e); err != nil {
			return err
		}
	}
	return nil
}

// moveEntry moves a file or a directory. Ordinary users cannot move a read-only directory, so moveEntry makes such a
// directory writable for the move.
func moveEntry(from, to string, e fs.DirEntry) error {
	err := os.Rename(from, to)
	if !errors.Is(err, fs.ErrPermission) || !e.IsDir() {
		return err
	}
	info, err := e.Info()
	if err != nil {
		return err
	}
	if err := os.Chmod(from, info.Mode().Perm()|0o700); err != nil {
		return err
	}
	return errors.Join(os.Rename(from, to), os.Chmod(to, info.Mode().Perm()))
}

// hideSubmodules renames the git directories of submodules, because git would use their configuration.
func hideSubmodules(dir string, index []byte) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	for e := range strings.SplitSeq(string(index), "\x00") {
		meta, path, _ := strings.Cut(e, "\t")
		if !strings.HasPrefix(meta, gitlink) || !filepath.IsLocal(path) {
			continue
		}
		if _, err := root.Lstat(filepath.Join(path, ".git")); err != nil {
			continue
		}
		if err := root.Rename(filepath.Join(path, ".git"), filepath.Join(path, keptGitName)); err != nil {
			return err
		}
	}
	return nil
}

// keepMerge restores a merge in progress in the worktree.
func (g *Git) keepMerge(ctx context.Context, t Tree, to string) error {
	own, err := g.run(ctx, to, "rev-parse", "--absolute-git-dir")
	if err != nil {
		return err
	}
	merged, err := agentfile.Read(filepath.Join(t.GitDir, "MERGE_HEAD"), maxLink)
	if err != nil {
		return nil //nolint:nilerr // no merge is in progress
	}
	for line := range strings.Lines(string(merged)) {
		if _, err := g.read(ctx, t.Repository, "cat-file", "-e", strings.TrimSpace(line)+"^{commit}"); err != nil {
			return ctx.Err() // the repository does not have the merged commit
		}
	}
	message, _ := agentfile.Read(filepath.Join(t.GitDir, "MERGE_MSG"), maxLink)
	for name, text := range map[string][]byte{"MERGE_HEAD": merged, "MERGE_MSG": message} {
		if err := os.WriteFile(filepath.Join(own, name), text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// discard removes the git directory of a tree that became a worktree. If there are submodules, it moves the directory
// next to the worktree, because their commits exist nowhere else.
func (t Tree) discard(to string) error {
	if entries, err := agentfile.ReadDir(filepath.Join(t.GitDir, "modules")); err == nil && len(entries) > 0 {
		if err := os.Rename(t.GitDir, to+keptGitName); err != nil {
			return err
		}
		return RemoveAll(t.Dir)
	}
	if err := RemoveAll(t.GitDir); err != nil {
		return err
	}
	return RemoveAll(t.Dir)
}

// Abandon is for a tree that git cannot read. It moves the files to another directory, and hides the git directory from
// git.
func (t Tree) Abandon(to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	if err := os.Rename(t.Dir, to); err != nil && !os.IsNotExist(err) {
		return err
	}
	root, err := os.OpenRoot(to)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	if err := root.Rename(".git", keptGitName); err != nil && !os.IsNotExist(err) {
		return err
	}
	if !t.separate() {
		return nil
	}
	if err := root.RemoveAll(keptGitName); err != nil { // the link to the git directory
		return err
	}
	return os.Rename(t.GitDir, filepath.Join(to, keptGitName))
}
