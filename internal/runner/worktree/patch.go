package worktree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"fleet/internal/fleet"
)

// diffArguments are arguments with which git compares two commits without running other programs.
var diffArguments = []string{"diff-tree", "-r", "-M", "--no-ext-diff", "--no-textconv", "--no-color", "--submodule=short"}

// Compare returns the files that differ between the commits, with the numbers of changed lines. The error wraps ErrNoCommit if the
// repository lacks one of the commits.
func (g *Git) Compare(ctx context.Context, repository, base, commit string) (*fleet.Changes, error) {
	v, err := g.openRepository(repository)
	if err != nil {
		return nil, err
	}
	defer v.close()
	c := &fleet.Changes{Base: base, Commit: commit}
	if err := v.addDifferences(ctx, c); err != nil {
		return nil, v.orNoCommit(ctx, err, base, commit)
	}
	return c, nil
}

// Patch returns at most limit bytes of the patch between the commits, from the offset, and whether the patch is longer. If path is
// set, the patch is only for that file. "git apply" can apply the patch to any working tree that has the files of base, even if its
// repository lacks the objects. The error wraps ErrNoCommit if this repository lacks one of the commits.
func (g *Git) Patch(ctx context.Context, repository, base, commit, path string, offset int64, limit int) (text []byte, more bool, err error) {
	v, err := g.openRepository(repository)
	if err != nil {
		return nil, false, err
	}
	defer v.close()
	args := append(slices.Clone(diffArguments), "-p", "--full-index", "--binary", "--src-prefix=a/", "--dst-prefix=b/", "--end-of-options", base, commit)
	if path != "" {
		from, err := v.renamedFrom(ctx, base, commit, path)
		if err != nil {
			return nil, false, err
		}
		args = append(args, "--", ":(top,literal)"+path)
		if from != "" {
			args = append(args, ":(top,literal)"+from)
		}
	}
	p := &pageWriter{skip: offset, limit: limit}
	if err := v.pipe(ctx, nil, p, args...); err != nil && !p.more {
		return nil, false, v.orNoCommit(ctx, err, base, commit)
	}
	return p.text, p.more, nil
}

// orNoCommit returns err, wrapped together with ErrNoCommit if the repository lacks one of the two commits.
func (v *view) orNoCommit(ctx context.Context, err error, base, commit string) error {
	if found, findErr := v.existingObjects(ctx, []string{base, commit}); findErr == nil && len(found) < 2 {
		return fmt.Errorf("%w: %w", ErrNoCommit, err)
	}
	return err
}

// ErrNoCommit means that the repository does not have a commit, for example because git has removed it.
var ErrNoCommit = errors.New("the repository no longer has the commit")

// renamedFrom returns the path that the file had in base, or an empty path if the file was not renamed.
func (v *view) renamedFrom(ctx context.Context, base, commit, path string) (string, error) {
	var out bytes.Buffer
	if err := v.pipe(ctx, nil, &out, append(slices.Clone(diffArguments), "-z", "--diff-filter=R", "--name-status", "--end-of-options", base, commit)...); err != nil {
		return "", err
	}
	fields := strings.Split(out.String(), "\x00") // R100, old path, new path
	for i := 0; i+2 < len(fields); i += 3 {
		if fields[i+2] == path {
			return fields[i+1], nil
		}
	}
	return "", nil
}

// pageWriter skips the first skip bytes that are written to it, and keeps the next limit bytes. If more bytes follow, Write
// returns an error, which stops git.
type pageWriter struct {
	skip  int64
	limit int
	text  []byte
	more  bool
}

func (p *pageWriter) Write(b []byte) (int, error) {
	n := len(b)
	if skip := min(p.skip, int64(len(b))); skip > 0 {
		p.skip -= skip
		b = b[skip:]
	}
	take := min(len(b), p.limit-len(p.text))
	p.text = append(p.text, b[:take]...)
	if p.more = take < len(b); p.more {
		return 0, io.ErrShortWrite
	}
	return n, nil
}
