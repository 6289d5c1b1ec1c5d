package worktree

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"slices"

	"fleet/internal/runner/gitfiles"
)

// copyWork copies the objects in wants, and all objects that they need, to the repository.
func (g *Git) copyWork(ctx context.Context, t Tree, v *view, wants []string, refs refSet) error {
	tips, err := v.existingObjects(ctx, refs.oids()) // a ref of the repository may be broken
	if err != nil {
		return err
	}
	slices.Sort(wants)
	wants = slices.DeleteFunc(slices.Compact(wants), func(oid string) bool {
		_, found := slices.BinarySearch(tips, oid)
		return found || !gitfiles.IsOID(oid)
	})
	return g.copyObjects(ctx, t.Repository, v, wants, tips)
}

// copyObjects copies the objects in wants, and all objects that they need, from the view to the repository, which already has
// tips. It checks the objects, because an agent may have made invalid ones.
func (g *Git) copyObjects(ctx context.Context, repository string, v *view, wants, tips []string) error {
	if len(wants) == 0 {
		return nil
	}
	to, err := g.openRepository(repository)
	if err != nil {
		return err
	}
	defer to.close()
	from := *v // making a pack takes longer than other commands, so it gets a longer limit
	from.git, to.git = g.withPackTimeout(), g.withPackTimeout()
	r, w := io.Pipe()
	packDone := make(chan error, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		err := from.pipe(ctx, revisions(wants, tips), w, packObjects...)
		_ = w.CloseWithError(err)
		packDone <- err
	}()
	err = to.unpack(ctx, r)
	_ = r.CloseWithError(io.ErrClosedPipe)
	if cause := <-packDone; cause != nil && err == nil {
		err = cause
	}
	return err
}

// strictCheck configures how objects are checked. The flaws that it ignores are harmless and occur in the history of many
// repositories.
const strictCheck = "--strict=zeroPaddedFilemode=ignore,badTimezone=ignore,missingSpaceBeforeDate=ignore,badFilemode=ignore,missingSpaceBeforeEmail=ignore,missingNameBeforeEmail=ignore"

// maxLoose is the number of objects up to which unpack stores each object of a pack in a file of its own.
const maxLoose = 100

// unpack adds the objects of a pack to the view's repository.
func (v *view) unpack(ctx context.Context, pack io.Reader) error {
	const header = 12 // "PACK", version, number of objects
	in := bufio.NewReader(pack)
	start, err := in.Peek(header)
	if err != nil {
		return err
	}
	args := []string{"index-pack", strictCheck, "--stdin", "--fix-thin"}
	switch n := binary.BigEndian.Uint32(start[8:]); {
	case !bytes.HasPrefix(start, []byte("PACK")):
		return &Error{Message: "git did not write a pack with the agent's work"}
	case n == 0:
		_, err := io.Copy(io.Discard, in)
		return err
	case n <= maxLoose && !v.alwaysPacks:
		args = []string{"unpack-objects", strictCheck, "-q"}
	}
	return v.pipe(ctx, in, io.Discard, args...)
}
