//go:build unix

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"fleet/internal/runner/filetree"
	"fleet/internal/runner/gitfiles"
)

// resolveParent returns the directory with the links of its parent resolved, because a policy accepts no links. The parent
// belongs to Fleet, but the agent may have replaced the directory itself by anything.
func resolveParent(dir string) (string, error) {
	parent, err := filepath.EvalSymlinks(filepath.Dir(dir))
	return filepath.Join(parent, filepath.Base(dir)), err
}

// runOnDirectory runs the named operation, whose argument is a directory that it may change; see runConfined.
func runOnDirectory[R any](ctx context.Context, name, dir string) (result R, err error) {
	if dir, err = resolveParent(dir); err != nil {
		return result, err
	}
	return runConfined[R](ctx, name, dir, access{write: []string{dir}})
}

// RemoveContents removes everything in a directory that an agent wrote.
func RemoveContents(ctx context.Context, dir string) error {
	_, err := runOnDirectory[noResult](ctx, "remove-contents", dir)
	return err
}

// Remove removes the path with everything in it. An agent may have written the path, but the directory that contains it belongs to
// Fleet. Remove succeeds if the path does not exist.
func Remove(ctx context.Context, path string) error {
	err := os.Remove(path) // files and empty directories
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if info, serr := os.Lstat(path); serr != nil || !info.IsDir() {
		return err
	}
	if err := RemoveContents(ctx, path); err != nil {
		return fmt.Errorf("cannot remove %s: %w", path, err)
	}
	return os.Remove(path)
}

// RemoveBelow removes the path below the directory, with everything in it. Agents may have written the path and the
// directories between, but not the directory itself.
func RemoveBelow(ctx context.Context, dir, path string) error {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	if _, err := runConfined[noResult](ctx, "remove-contents", filepath.Join(dir, path), access{write: []string{dir}}); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	return errors.Join(root.Remove(path), root.Close())
}

// Examine examines a directory that an agent wrote; see filetree.Examine.
func Examine(ctx context.Context, dir string) (s filetree.Survey, err error) {
	return runOnDirectory[filetree.Survey](ctx, "examine", dir)
}

// HideRepositories changes a directory that an agent wrote so that git recognises no repository in it; see
// filetree.HideRepositories.
func HideRepositories(ctx context.Context, dir string) error {
	_, err := runOnDirectory[noResult](ctx, "hide-repositories", dir)
	return err
}

// ShowRepositories reverts HideRepositories.
func ShowRepositories(ctx context.Context, dir string) error {
	_, err := runOnDirectory[noResult](ctx, "show-repositories", dir)
	return err
}

// WriteHomeFiles creates and replaces files in the home directory of an agent; see filetree.WriteHomeFiles.
func WriteHomeFiles(ctx context.Context, files filetree.HomeFiles) (obstacle string, err error) {
	if files.Dir, err = resolveParent(files.Dir); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, quickTimeout)
	defer cancel()
	return runConfined[string](ctx, "write-home-files", files, access{write: []string{files.Dir}})
}

// Shrink limits the size of a directory with caches that agents wrote; see filetree.Shrink.
func Shrink(ctx context.Context, l filetree.CacheLimit) (s filetree.ShrinkResult, err error) {
	if l.Dir, err = resolveParent(l.Dir); err != nil {
		return s, err
	}
	return runConfined[filetree.ShrinkResult](ctx, "shrink", l, access{write: []string{l.Dir}})
}

// Find returns the first path that the pattern matches; see filetree.Find.
func Find(ctx context.Context, pattern string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, quickTimeout)
	defer cancel()
	return runConfined[string](ctx, "find", pattern, access{read: []string{filetree.PatternRoot(pattern)}})
}

// ReadGit reads the files of a git directory that an agent wrote; see gitfiles.Read.
func ReadGit(ctx context.Context, dir string) (gitfiles.Info, error) {
	return runConfined[gitfiles.Info](ctx, "read-git", dir, access{read: []string{dir}})
}

// CopyIndex copies the index of a git directory that an agent wrote into a directory of Fleet; see gitfiles.CopyIndex.
func CopyIndex(ctx context.Context, c gitfiles.IndexCopy) error {
	_, err := runConfined[noResult](ctx, "copy-index", c, access{read: []string{filepath.Dir(c.From)}, write: []string{filepath.Dir(c.To)}, fileSize: gitfiles.MaxIndex})
	return err
}

// SizesOf returns the sizes of files in a working tree that an agent wrote; see gitfiles.Sizes.
func SizesOf(ctx context.Context, f gitfiles.Files) ([]int64, error) {
	sizes, err := runConfined[[]int64](ctx, "sizes", f, access{read: []string{f.Dir}, maxResult: maxLargeResult})
	if err == nil && len(sizes) != len(f.Paths) {
		err = errors.New("the sandbox helper has not examined all files")
	}
	return sizes, err
}

// RepairGit makes the git directory and the working tree of an agent usable for git; see gitfiles.Repair.
func RepairGit(ctx context.Context, t gitfiles.Tree) (gitfiles.RepairResult, error) {
	write := []string{t.GitDir}
	if t.Dir != "" {
		write = append(write, t.Dir)
	}
	return runConfined[gitfiles.RepairResult](ctx, "repair-git", t, access{write: write})
}

// CopyLFS copies files of Git LFS that an agent wrote into a directory of Fleet; see gitfiles.CopyLFS. override is
// Policy.Override.
func CopyLFS(ctx context.Context, c gitfiles.LFSCopy, override bool) error {
	_, err := runConfined[noResult](ctx, "copy-lfs", c, access{read: []string{c.From, c.Have}, write: []string{c.To}, override: override, fileSize: gitfiles.MaxLFSFile + 1})
	return err
}
