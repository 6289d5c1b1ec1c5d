package worktree

import (
	"context"
	"io"
	"slices"
)

// diff compares two commits without running programs.
var diff = []string{"diff-tree", "-r", "-M", "--no-ext-diff", "--no-textconv", "--no-color", "--submodule=short"}

// Patch returns at most limit bytes of the patch between the commits, from the offset, and whether the patch is longer.
// If path is set, the patch is only for that file.
func (g *Git) Patch(ctx context.Context, repository, base, commit, path string, offset int64, limit int) (text []byte, more bool, err error) {
	v, err := g.view(repository, false)
	if err != nil {
		return nil, false, err
	}
	defer v.close()
	args := append(slices.Clone(diff), "-p", "--full-index", "--end-of-options", base, commit)
	if path != "" {
		args = append(args, "--", ":(top,literal)"+path)
	}
	p := &page{skip: offset, limit: limit}
	if err := v.pipe(ctx, nil, p, args...); err != nil && !p.more {
		return nil, false, err
	}
	return p.text, p.more, nil
}

// page skips the first skip bytes that are written to it, and keeps the next limit bytes. If more bytes follow, Write
// returns an error, which stops git.
type page struct {
	skip  int64
	limit int
	text  []byte
	more  bool
}

func (p *page) Write(b []byte) (int, error) {
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
