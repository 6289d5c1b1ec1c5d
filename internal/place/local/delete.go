package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"fleet/internal/fleet"
	"fleet/internal/place/agentfile"
	"fleet/internal/runner"
	"fleet/internal/runner/worktree"
)

// Delete implements fleet.Place. It keeps uncommitted work of a worktree in a directory, which the returned text names.
// It keeps the agent's branch if the branch has commits of its own. Without a repository, it keeps files only if the
// agent's configuration has Keep, and for that time.
func (b *Place) Delete(ctx context.Context, a fleet.Agent) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	h := b.home(a.UID)
	trash := home(filepath.Join(filepath.Dir(string(h)), ".deleted-"+filepath.Base(string(h))))
	if !h.exists() {
		return b.deleteHome(ctx, trash)
	}
	if err := b.host.End(ctx, runner.Home(h), "its agent was deleted"); err != nil {
		return "", err
	}
	r, err := h.record()
	if err != nil {
		b.config.Logger.WarnContext(ctx, "agent record unreadable, deleting without it", "agent", a.Name, "error", err)
	}
	if r != nil && r.Results && a.Config != nil {
		if err := b.keepResults(a, h, r); err != nil {
			return "", err
		}
	}
	if r != nil && r.Repository != "" {
		if err := b.removeWorktree(ctx, h, r); err != nil {
			return "", err
		}
	}
	b.forget(ctx, a, h)
	// The rename makes the removal atomic: a home is either complete or removed.
	if _, err := b.deleteHome(ctx, trash); err != nil {
		return "", err
	}
	if err := os.Rename(string(h), string(trash)); err != nil {
		return "", runner.HostError("cannot remove the agent's directory", err)
	}
	return b.deleteHome(ctx, trash)
}

// removeWorktree removes the worktree. If work must be kept, it moves the worktree out of the home instead.
func (b *Place) removeWorktree(ctx context.Context, h home, r *record) error {
	t := h.tree(r)
	if err := b.git.Migrate(ctx, t); err != nil {
		if ctx.Err() != nil {
			return err
		}
		b.config.Logger.WarnContext(ctx, "worktree migration failed", "agent", r.Name, "error", err)
	}
	if !r.Deleting {
		if err := b.decideKept(ctx, h, r); err != nil {
			return err
		}
		r.Deleting = true
		// After a crash, the next call reads the decision from the record. On a full disk, the deletion must continue
		// although the record cannot be written.
		if err := h.write(r); err != nil && !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) {
			return runner.HostError("cannot write the agent's record", err)
		}
	}
	usable := b.git.Check(ctx, r.Repository) == nil
	if err := ctx.Err(); err != nil {
		return err
	}
	switch {
	case r.KeptDir != "" && usable:
		if err := b.git.Move(ctx, t, r.KeptDir); err == nil || ctx.Err() != nil {
			return err
		}
		fallthrough // git does not recognise the worktree any more, but its files still exist
	case r.KeptDir != "":
		if err := t.Abandon(r.KeptDir); err != nil {
			return runner.HostError("cannot keep the agent's work", err)
		}
	case usable:
		if err := b.git.Remove(ctx, t); err != nil {
			return gitError(ctx, "cannot remove the agent's worktree", err)
		}
	}
	return nil
}

// decideKept decides which work of the agent is kept, and sets Kept and KeptDir of the record. It does not write the
// record.
func (b *Place) decideKept(ctx context.Context, h home, r *record) error {
	t := h.tree(r)
	entries, err := agentfile.ReadDir(t.Dir)
	if !r.Ready || errors.Is(err, agentfile.ErrReplaced) {
		return nil // the agent never worked in the worktree, or has removed it
	}
	keep := filepath.Join(b.config.Dir, "kept", label(r.Name, r.UID))
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // when in doubt, keep the files
		r.KeptDir = keep
		r.Kept = fmt.Sprintf("the worktree of agent %q cannot be read, so it is kept in %s", r.Name, keep)
		return nil
	}
	broken := t.Problem() != ""
	if broken && len(entries) > 0 {
		r.KeptDir = keep
		r.Kept = fmt.Sprintf("git does not recognise the worktree of agent %q any more, so its files are kept in %s", r.Name, keep)
		return nil
	}
	var w worktree.Work
	if broken { // without files, work can only be on the branch
		w.Commits, w.Branches, _ = b.git.Commits(ctx, t)
		err = nil
	} else {
		w, err = b.git.Work(ctx, t)
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil: // when in doubt, keep the files
		r.KeptDir = keep
		r.Kept = fmt.Sprintf("git cannot tell what agent %q has changed, so its files are kept in %s", r.Name, keep)
	case w.Uncommitted:
		r.KeptDir = keep
		r.Kept = fmt.Sprintf("uncommitted work of agent %q is kept in %s, a worktree of %s; the agent's branch is %s", r.Name, keep, r.Repository, t.PublishedBranch())
	case w.Commits > 0:
		r.Kept = fmt.Sprintf("the commits of agent %q (%d) are kept on the %s of %s", r.Name, w.Commits, branches(w.Branches), r.Repository)
	}
	return nil
}

// branches returns the names of branches as a part of a sentence.
func branches(names []string) string {
	if len(names) == 1 {
		return "branch " + names[0]
	}
	return "branches " + strings.Join(names, ", ")
}

// deleteHome deletes a home that Delete has renamed to trash. It deletes the record last, so that an interrupted
// deletion can be repeated. It returns the description of the kept work.
func (b *Place) deleteHome(ctx context.Context, trash home) (string, error) {
	entries, err := agentfile.ReadDir(string(trash))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", runner.HostError("cannot remove the agent's directory", err)
	}
	kept := ""
	if r, err := trash.record(); err == nil && r != nil {
		kept = r.Kept
	}
	for _, e := range entries {
		if e.Name() == "agent.json" {
			continue
		}
		if err := ctx.Err(); err != nil {
			return "", err
		}
		if err := worktree.RemoveAll(trash.path(e.Name())); err != nil {
			return "", runner.HostError("cannot remove the agent's directory", err)
		}
	}
	if err := worktree.RemoveAll(string(trash)); err != nil {
		return "", runner.HostError("cannot remove the agent's directory", err)
	}
	return kept, nil
}

// gitError returns an error for the failed operation what, with the message of git. If ctx is done, it returns the
// error of ctx.
func gitError(ctx context.Context, what string, cause error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ge, ok := errors.AsType[*worktree.Error](cause)
	if !ok {
		return runner.HostError(what, cause)
	}
	return fleet.Errorf(fleet.ReasonProvisioningFailed, "%s: %s", what, ge.Message)
}
