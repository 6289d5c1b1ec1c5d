package worktree

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"fleet/internal/runner/gitfiles"
	"fleet/internal/scratch"
)

// pointerPattern matches the pointer that a commit has in place of a file of Git LFS.
var pointerPattern = regexp.MustCompile(`\Aversion https://git-lfs\.github\.com/spec/v1\n(?:[^\n]*\n)*?oid sha256:([0-9a-f]{64})\n`)

// maxPointer is the size below which a file can be a pointer, in bytes.
const maxPointer = 1024

// lfsDigests returns the digests of the Git LFS files in the history of the commit, without those in the histories of the
// others.
func (v *view) lfsDigests(ctx context.Context, commit string, others []string) (digests []string, err error) {
	var oids []string
	list := &lineWriter{each: func(oid string) { oids = append(oids, oid) }}
	if err := v.pipe(ctx, revisions([]string{commit}, others), list, "rev-list", "--objects", "--no-object-names", "--filter-provided-objects",
		fmt.Sprintf("--filter=combine:object:type=blob+blob:limit=%d", maxPointer), "--stdin"); err != nil {
		return nil, err
	}
	err = v.eachBlob(ctx, oids, func(text io.Reader) error {
		if text == nil {
			return nil
		}
		b, err := io.ReadAll(io.LimitReader(text, maxPointer))
		if m := pointerPattern.FindSubmatch(b); m != nil {
			digests = append(digests, string(m[1]))
		}
		return err
	})
	slices.Sort(digests)
	return slices.Compact(digests), err
}

// lfsDir returns the directory with the Git LFS files of the repository with the common git directory.
func lfsDir(common string) string { return filepath.Join(common, "lfs", "objects") }

// MissingLFS returns the digests of the Git LFS files that the commit adds to the branches of the remotes, and whose content the
// repository does not have.
func (g *Git) MissingLFS(ctx context.Context, repository, commit string) (missing []string, err error) {
	v, err := g.openRepository(repository)
	if err != nil {
		return nil, err
	}
	defer v.close()
	others, err := v.remoteCommits(ctx, "refs/remotes/")
	if err != nil {
		return nil, err
	}
	all, err := v.lfsDigests(ctx, commit, others)
	return slices.DeleteFunc(all, func(digest string) bool { return hasLFS(commonDir(repository), digest) }), err
}

// remoteCommits returns the existing commits of the refs with the prefix.
func (v *view) remoteCommits(ctx context.Context, prefix string) ([]string, error) {
	refs, err := v.git.refs(ctx, Tree{Repository: v.dir})
	if err != nil {
		return nil, err
	}
	var oids []string
	for name, r := range refs {
		if strings.HasPrefix(name, prefix) {
			oids = append(oids, r.oid)
		}
	}
	slices.Sort(oids)
	return v.existingObjects(ctx, slices.Compact(oids))
}

func hasLFS(common, digest string) bool {
	info, err := os.Lstat(filepath.Join(lfsDir(common), gitfiles.LFSPath(digest)))
	return err == nil && info.Mode().IsRegular()
}

// ReadLFS writes the Git LFS file with the digest to out. The error is fs.ErrNotExist if the repository does not have it.
func (g *Git) ReadLFS(repository, digest string, out io.Writer) error {
	path := gitfiles.LFSPath(digest)
	if path == "" {
		return fs.ErrNotExist
	}
	in, err := os.OpenFile(filepath.Join(lfsDir(commonDir(repository)), path), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	if info, err := in.Stat(); err != nil || !info.Mode().IsRegular() {
		return errors.Join(fs.ErrNotExist, err)
	}
	_, err = io.Copy(out, in)
	return err
}

// AddLFS adds a Git LFS file to the repository. ok is false if the content does not have the digest. Then the repository does not
// change.
func (g *Git) AddLFS(repository, digest string, in io.Reader) (ok bool, err error) {
	path := gitfiles.LFSPath(digest)
	if path == "" {
		return false, nil
	}
	dir := tempDir(commonDir(repository))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return false, err
	}
	temp, err := scratch.Open(dir) // on the disk of the repository, so that a rename suffices
	if err != nil {
		return false, err
	}
	defer func() { _ = temp.Close() }()
	f, err := os.Create(filepath.Join(temp.Path(), digest))
	if err != nil {
		return false, err
	}
	sum := sha256.New()
	_, err = io.Copy(io.MultiWriter(f, sum), in)
	if err = errors.Join(err, f.Close()); err != nil || hex.EncodeToString(sum.Sum(nil)) != digest {
		return false, err
	}
	at := filepath.Join(lfsDir(commonDir(repository)), path)
	if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
		return false, err
	}
	return true, os.Rename(f.Name(), at)
}

// CopyLFS copies a Git LFS file from another repository on this machine. ok is false if the other repository does not have it.
func (g *Git) CopyLFS(repository, digest, from string) (ok bool, err error) {
	in, out := io.Pipe()
	go func() { _ = out.CloseWithError(g.ReadLFS(from, digest, out)) }()
	ok, err = g.AddLFS(repository, digest, in)
	_ = in.CloseWithError(io.ErrClosedPipe)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return ok, err
}

// maxLFSArguments is how many digests git lfs gets at once.
const maxLFSArguments = 500

// uploadLFS uploads the Git LFS files that the pushed commit adds to the branches of the remote. The hook of Git LFS would do
// that, but hooks do not run. uploadLFS refuses a commit whose files are missing here.
func (v *view) uploadLFS(ctx context.Context, p pushRequest, to string) error {
	confinedView, err := v.git.openRepository(p.repository)
	if err != nil {
		return err
	}
	defer confinedView.close()
	others, err := confinedView.remoteCommits(ctx, "refs/remotes/"+p.remote+"/")
	if err != nil {
		return err
	}
	all, err := confinedView.lfsDigests(ctx, p.commit, others)
	if err != nil || len(all) == 0 {
		return err
	}
	for _, digest := range all {
		if !hasLFS(commonDir(p.repository), digest) {
			return &Error{Message: "the content of the Git LFS file " + digest + " is not in the repository from which it would be pushed"}
		}
	}
	for batch := range slices.Chunk(all, maxLFSArguments) {
		err := v.pipe(ctx, nil, io.Discard, slices.Concat([]string{"lfs", "push", "--object-id", to}, batch)...)
		if e, isGitError := errors.AsType[*Error](err); isGitError && strings.Contains(e.Message, "'lfs' is not a git command") {
			return &Error{Message: fmt.Sprintf("the work has %s of Git LFS, and git-lfs is not installed where it is pushed from: install the package git-lfs there", plural(len(all), "file", "files"))}
		}
		if err != nil {
			return err
		}
	}
	return nil
}
