package runner

import (
	"context"
	"errors"
	"io"

	"fleet/internal/fleet"
	"fleet/internal/runner/worktree"
)

// treeNow is the name, in place of a task's, below which the tree is kept as it is when a bundle is made.
const treeNow = "now"

// Bundle implements fleet.Runner. It keeps the agent's tree as it is first, if there is one.
func (w Agent) Bundle(ctx context.Context, out io.Writer) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	t, err := w.ws.Tree()
	if err != nil || t == nil {
		return err
	}
	if t.Dir != "" && t.Trouble() == "" {
		_, err = t.Git.Snapshot(ctx, t.Tree, t.UID, treeNow)
	}
	to := &failing{out: out}
	if err == nil {
		err = t.Git.Bundle(ctx, t.Tree, t.UID, t.Own, to)
	}
	switch {
	case to.err != nil:
		return to.err
	case err == nil || ctx.Err() != nil:
		return err
	}
	if said, ok := errors.AsType[*worktree.Error](err); ok {
		return fleet.Errorf(fleet.ReasonProvisioningFailed, "the work of agent %q cannot be bundled: %s", w.name, said.Words)
	}
	return HostError("cannot bundle the agent's work", err)
}

// failing remembers the error of the writer below it, which git's own error would hide.
type failing struct {
	out io.Writer
	err error
}

func (f *failing) Write(p []byte) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	n, err := f.out.Write(p)
	f.err = err
	return n, err
}
