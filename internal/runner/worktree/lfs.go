package worktree

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"

	"fleet/internal/fleet"
	"fleet/internal/runner/gitfiles"
	"fleet/internal/runner/sandbox"
	"fleet/internal/scratch"
)

// keepLFS calls collectLFS and records a failure in c. It returns an error only if the context is done.
func (t Tree) keepLFS(ctx context.Context, v *view, c *fleet.Changes) error {
	if !v.info.HasLFS {
		return nil
	}
	err := t.collectLFS(ctx)
	if err == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	why := "they cannot be copied into the repository"
	if e, ok := errors.AsType[syscall.Errno](err); ok { // without the path, which belongs to the server
		why += ": " + e.Error()
	}
	c.LeftOut = append(c.LeftOut, describeLeftOut("files of Git LFS", why))
	return nil
}

// collectLFS copies the agent's Git LFS files into the repository. Commits contain only their digests.
func (t Tree) collectLFS(ctx context.Context) error {
	common := commonDir(t.Repository)
	dir, to := tempDir(common), lfsDir(common)
	owner := ownerOf(t.Repository)
	if err := owner.mkdirAll(dir); err != nil {
		return err
	}
	temp, err := scratch.Open(dir) // on the disk of the repository, so that a rename suffices
	if err != nil {
		return err
	}
	defer func() { _ = temp.Close() }()
	tempPath, err := filepath.EvalSymlinks(temp.Path()) // a sandbox accepts no link in a path that may be written
	if err != nil {
		return err
	}
	copyErr := sandbox.CopyLFS(ctx, gitfiles.LFSCopy{From: t.GitDir, Have: to, To: tempPath}, owner != nil)
	copies, err := os.ReadDir(tempPath) // also after an interrupted call, so that the next one has less to do
	if err != nil {
		return errors.Join(copyErr, err)
	}
	for _, c := range copies {
		digest := c.Name()
		path := gitfiles.LFSPath(digest)
		if path == "" || !c.Type().IsRegular() {
			continue
		}
		from, at := filepath.Join(tempPath, digest), filepath.Join(to, path)
		if err := errors.Join(owner.chown(from), owner.mkdirAll(filepath.Dir(at))); err != nil {
			return err
		}
		if err := os.Rename(from, at); err != nil {
			return err
		}
	}
	return copyErr
}
