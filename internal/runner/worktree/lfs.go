package worktree

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"fleet/internal/fleet"
	"fleet/internal/scratch"
)

// largeFile matches the path of a Git LFS file below lfs/objects: its digest in two levels of directories.
var largeFile = regexp.MustCompile(`^[0-9a-f]{2}/[0-9a-f]{2}/([0-9a-f]{64})$`)

// Sweep removes the temporary files that killed processes have left in the repository.
func Sweep(repository string) error {
	common := commonDir(repository)
	if common == "" {
		return nil
	}
	return scratch.Sweep(filepath.Join(common, "lfs", "tmp"))
}

// keepLFS calls collectLFS and records a failure in c. The error is only that of the context.
func (t Tree) keepLFS(ctx context.Context, c *fleet.Changes) error {
	err := t.collectLFS(ctx)
	if err == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	why := "they cannot be copied into the repository"
	if e, ok := errors.AsType[syscall.Errno](err); ok { // without the path, which is one of the server
		why += ": " + e.Error()
	}
	c.LeftOut = append(c.LeftOut, leftOut("files of Git LFS", why))
	return nil
}

// collectLFS copies the agent's Git LFS files into the repository. Commits contain only their digests.
func (t Tree) collectLFS(ctx context.Context) error {
	from, err := os.OpenRoot(t.GitDir)
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }()
	dir, err := from.OpenRoot("lfs/objects")
	if err != nil {
		return nil //nolint:nilerr // the agent has no such files
	}
	defer func() { _ = dir.Close() }()
	common := filepath.Join(commonDir(t.Repository), "lfs")
	to := filepath.Join(common, "objects")
	own := ownerOf(t.Repository)
	if err := own.mkdirAll(filepath.Join(common, "tmp")); err != nil {
		return err
	}
	temp, err := scratch.Open(filepath.Join(common, "tmp")) // on the disk of the repository, so that a rename suffices
	if err != nil {
		return err
	}
	defer func() { _ = temp.Close() }()
	return fs.WalkDir(dir.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if d != nil && d.IsDir() && strings.Count(path, "/") > 1 {
			return fs.SkipDir // Git LFS has two levels
		}
		m := largeFile.FindStringSubmatch(path)
		if err != nil || m == nil || !d.Type().IsRegular() {
			return nil //nolint:nilerr // skip files that the agent has made unreadable
		}
		if _, err := os.Lstat(filepath.Join(to, path)); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return own.copyLarge(ctx, dir, path, filepath.Join(temp.Path(), m[1]), filepath.Join(to, path), m[1])
	})
}

// maxLarge limits the size of a Git LFS file that is copied, in bytes.
const maxLarge = 4 << 30

// isSparse reports whether the file is larger than what it uses on the disk. Git LFS writes no such files, and reading
// one can take days.
func isSparse(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && info.Size() > 1<<20 && st.Blocks*512 < info.Size()/2
}

// copyLarge copies a file to the path to, by way of the path temp, if its content has the digest.
func (o *owner) copyLarge(ctx context.Context, from *os.Root, name, temp, to, digest string) error {
	in, err := from.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil //nolint:nilerr // skip a file that the agent has made unreadable
	}
	defer func() { _ = in.Close() }()
	if info, err := in.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() > maxLarge || isSparse(info) {
		return err
	}
	out, err := os.Create(temp)
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(temp) }() // fails after the rename
	sum := sha256.New()
	defer context.AfterFunc(ctx, func() { _ = in.Close() })() // ends the copy when the context ends
	_, err = io.Copy(io.MultiWriter(out, sum), io.LimitReader(in, maxLarge+1))
	if cerr := out.Close(); err == nil {
		err = cerr
	}
	if err != nil || hex.EncodeToString(sum.Sum(nil)) != digest {
		return err
	}
	if err := errors.Join(o.give(temp), o.mkdirAll(filepath.Dir(to))); err != nil {
		return err
	}
	return os.Rename(temp, to)
}
