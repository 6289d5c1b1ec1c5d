package runner

import (
	"context"
	"errors"
	"io"

	"fleet/internal/fleet"
	"fleet/internal/runner/worktree"
)

// bundleSnapshot stands in for a task's id when Bundle makes a snapshot.
const bundleSnapshot = "now"

// Bundle implements fleet.Runner. It first makes a snapshot of the agent's working tree if the tree exists.
func (a Agent) Bundle(ctx context.Context, out io.Writer) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	t, err := a.ws.Tree()
	if err != nil || t == nil {
		return err
	}
	if t.Dir != "" {
		_, err = t.Git.Snapshot(ctx, t.Tree, bundleSnapshot) // may succeed although nobody can work in the tree any more
		if err != nil && ctx.Err() == nil && t.Problem() != "" {
			err = nil // the repository has the earlier snapshots
		}
	}
	recorder := &errorWriter{out: out}
	if err == nil {
		err = t.Git.Bundle(ctx, t.Tree, t.Exclusive, recorder)
	}
	switch {
	case recorder.err != nil:
		return recorder.err
	case err == nil || ctx.Err() != nil:
		return err
	}
	if gitErr, ok := errors.AsType[*worktree.Error](err); ok {
		return fleet.Errorf(fleet.ReasonProvisioningFailed, "cannot bundle the work of agent %q: %s", a.name, gitErr.Message)
	}
	return HostError("cannot bundle the agent's work", err)
}

// errorWriter records the error of the wrapped writer, because git reports only its own errors.
type errorWriter struct {
	out io.Writer
	err error
}

func (w *errorWriter) Write(p []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	n, err := w.out.Write(p)
	w.err = err
	return n, err
}
