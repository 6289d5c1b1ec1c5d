package worktree

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"fleet/internal/runner/gitfiles"
)

// maxTips limits how many object ids Tips returns.
const maxTips = 500

// Tips returns the ids of objects that refs of the repository name, at most maxTips. A pack for this repository can leave out these
// objects and their histories.
func (g *Git) Tips(ctx context.Context, repository string) ([]string, error) {
	refs, err := g.refs(ctx, Tree{Repository: repository})
	if err != nil {
		return nil, err
	}
	tips := refs.oids()
	return tips[:min(len(tips), maxTips)], nil
}

// Pack writes a pack with the commit and the objects that it needs to out. It leaves out the objects that the commits in have need. It
// ignores ids in have that are not valid or that the repository lacks. If withoutRemotes is set, Pack also leaves out the objects of
// remote branches. The error is CHANGES_NOT_FOUND if the repository lacks the commit.
func (g *Git) Pack(ctx context.Context, repository, commit string, have []string, withoutRemotes bool, out io.Writer) error {
	if err := g.RequireCommit(ctx, repository, commit); err != nil {
		return err
	}
	v, err := g.openRepository(repository)
	if err != nil {
		return err
	}
	defer v.close()
	have = slices.DeleteFunc(slices.Clone(have), func(oid string) bool { return !gitfiles.IsOID(oid) })
	if withoutRemotes {
		refs, err := g.refs(ctx, Tree{Repository: repository})
		if err != nil {
			return err
		}
		for name, r := range refs {
			if strings.HasPrefix(name, "refs/remotes/") && r.oid != commit {
				have = append(have, r.oid)
			}
		}
	}
	if have, err = v.existingObjects(ctx, have); err != nil {
		return err
	}
	v.git = g.withPackTimeout()
	return v.pipe(ctx, revisions([]string{commit}, have), out, packObjects...)
}

// packObjects are the arguments of git that write a pack for Unpack.
var packObjects = []string{"pack-objects", "--revs", "--stdout", "--thin", "--delta-base-offset", "--quiet"}

// ErrIncomplete means that a pack does not have all objects that are needed, or that it has objects that git refuses.
var ErrIncomplete = errors.New("the pack is incomplete")

// Unpack checks the objects of a pack or of a bundle, and adds them to the repository. The error wraps ErrIncomplete if git refuses the
// pack, or if the repository does not have the commit afterwards.
func (g *Git) Unpack(ctx context.Context, repository, commit string, in io.Reader) error {
	v, err := g.openRepository(repository)
	if err != nil {
		return err
	}
	defer v.close()
	v.git = g.withPackTimeout()
	pack := bufio.NewReader(in)
	if err = skipBundleHeader(pack); err == nil {
		err = v.unpack(ctx, pack)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if _, isGitError := errors.AsType[*Error](err); err != nil && !isGitError && !errors.Is(err, io.EOF) {
		return err
	}
	if commitErr := g.RequireCommit(ctx, repository, commit); err != nil || commitErr != nil {
		return errors.Join(ErrIncomplete, err, commitErr)
	}
	return nil
}

// skipBundleHeader skips the text before the pack in a bundle. It does nothing if the input is only a pack.
func skipBundleHeader(in *bufio.Reader) error {
	if begin, err := in.Peek(2); err != nil || !bytes.Equal(begin, []byte("# ")) {
		return nil //nolint:nilerr // unpack reports the error
	}
	for rest := false; ; { // whether line is the rest of a line that does not fit into the buffer
		line, err := in.ReadSlice('\n')
		full := errors.Is(err, bufio.ErrBufferFull)
		switch {
		case err != nil && !full:
			return &Error{Message: "the bundle is damaged"}
		case len(line) == 1 && !rest:
			return nil
		}
		rest = full
	}
}

// CopyCommit copies the commit into the repository from another repository on this machine. It returns CHANGES_NOT_FOUND if neither
// has the commit.
func (g *Git) CopyCommit(ctx context.Context, repository, commit, from string) error {
	if g.RequireCommit(ctx, repository, commit) == nil {
		return nil
	}
	if err := g.RequireCommit(ctx, from, commit); err != nil {
		return err
	}
	v, err := g.openRepository(from)
	if err != nil {
		return err
	}
	defer v.close()
	tips, err := g.Tips(ctx, repository)
	if err != nil {
		return err
	}
	if tips, err = v.existingObjects(ctx, tips); err != nil {
		return err
	}
	return g.copyObjects(ctx, repository, v, []string{commit}, tips)
}
