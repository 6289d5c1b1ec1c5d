//go:build unix

package gitfiles

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// MaxLFSFile limits the size of a Git LFS file that is copied, in bytes.
const MaxLFSFile = 4 << 30

// LFSCopy names the directories for CopyLFS.
type LFSCopy struct {
	From string `json:"from"` // a git directory that an agent wrote
	Have string `json:"have"` // the directory lfs/objects whose files are not copied
	To   string `json:"to"`   // the directory for the copies; their names are their digests
}

// LFSPath returns the path of a Git LFS file below lfs/objects. It is empty if the digest is not valid.
func LFSPath(digest string) string {
	if len(digest) != sha256.Size*2 || !isHex(digest) {
		return ""
	}
	return digest[:2] + "/" + digest[2:4] + "/" + digest
}

// CopyLFS copies the files whose content has the digest of their name. A copy has the suffix ".part" until it is complete, so
// the caller can also use the other copies of an interrupted call. CopyLFS skips files that cannot be read, that are larger than
// MaxLFSFile, or that are sparse.
func CopyLFS(c LFSCopy) error {
	dir, err := os.OpenRoot(c.From)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	from, err := dir.OpenRoot("lfs/objects")
	if err != nil {
		return nil //nolint:nilerr // the agent has no such files
	}
	defer func() { _ = from.Close() }()
	return fs.WalkDir(from.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() && strings.Count(path, "/") > 1 {
			return fs.SkipDir // Git LFS has two levels
		}
		digest := filepath.Base(path)
		if err != nil || !d.Type().IsRegular() || LFSPath(digest) != path {
			return nil //nolint:nilerr // see CopyLFS
		}
		if _, err := os.Lstat(filepath.Join(c.Have, path)); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return copyLFSFile(from, path, filepath.Join(c.To, digest), digest)
	})
}

// copyLFSFile copies a file if its content has the digest. It skips the files that CopyLFS skips.
func copyLFSFile(from *os.Root, name, to, digest string) error {
	in, err := from.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil //nolint:nilerr // see CopyLFS
	}
	defer func() { _ = in.Close() }()
	if info, err := in.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() > MaxLFSFile || isSparse(info) {
		return err
	}
	part := to + ".part"
	out, err := os.OpenFile(part, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	sum := sha256.New()
	_, err = io.Copy(io.MultiWriter(out, sum), io.LimitReader(in, MaxLFSFile+1))
	err = errors.Join(err, out.Close())
	if err != nil || hex.EncodeToString(sum.Sum(nil)) != digest {
		return errors.Join(err, os.Remove(part))
	}
	return os.Rename(part, to)
}

// isSparse reports whether the file has more than 1 MiB and uses less than half of its size on the disk. Git LFS writes no such files,
// and reading one can take days.
func isSparse(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && info.Size() > 1<<20 && st.Blocks*512 < info.Size()/2
}
