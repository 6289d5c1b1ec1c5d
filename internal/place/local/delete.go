package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"fleet/internal/fleet"
	"fleet/internal/place/agentfile"
	"fleet/internal/runner"
	"fleet/internal/runner/worktree"
)

// Delete implements fleet.Place. What is in a worktree and not committed is kept, in a directory that the text
// names; commits that no other branch has are kept on the agent's branch. Without a repository nothing is kept, unless
// the agent's recipe says how long.
func (b *Place) Delete(ctx context.Context, a fleet.Agent) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	h := b.home(a.UID)
	trash := home(filepath.Join(filepath.Dir(string(h)), ".deleted-"+filepath.Base(string(h))))
	if !h.exists() {
		return b.empty(ctx, trash)
	}
	if err := b.host.End(ctx, runner.Home(h), "its agent was deleted"); err != nil {
		return "", err
	}
	r, err := h.record()
	if err != nil {
		b.config.Logger.WarnContext(ctx, "deleting an agent whose record cannot be read", "agent", a.Name, "error", err)
	}
	if r != nil && r.Results && a.Recipe != nil {
		if err := b.keepResults(a, h, r); err != nil {
			return "", err
		}
	}
	if r != nil && r.Repository != "" {
		if err := b.part(ctx, h, r); err != nil {
			return "", err
		}
	}
	b.forget(ctx, a, h)
	// Moved away first, the home is there as a whole or not at all.
	if _, err := b.empty(ctx, trash); err != nil {
		return "", err
	}
	if err := os.Rename(string(h), string(trash)); err != nil {
		return "", runner.HostError("the directory of the agent cannot be removed", err)
	}
	return b.empty(ctx, trash)
}

// part takes the worktree out of the home, and keeps what is not to be lost.
func (b *Place) part(ctx context.Context, h home, r *record) error {
	t := h.tree(r)
	if err := b.git.Migrate(ctx, t); err != nil {
		if ctx.Err() != nil {
			return err
		}
		b.config.Logger.WarnContext(ctx, "a worktree of an earlier version cannot be migrated", "agent", r.Name, "error", err)
	}
	if !r.Deleting {
		if err := b.decide(ctx, h, r); err != nil {
			return err
		}
		r.Deleting = true
		// So that a call after a crash keeps the same, and says so. On a full disk deleting matters more.
		if err := h.write(r); err != nil && !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) {
			return runner.HostError("the record of the agent cannot be written", err)
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
		fallthrough // git does not know the worktree any more; its files are what counts
	case r.KeptDir != "":
		if err := t.Abandon(r.KeptDir); err != nil {
			return runner.HostError("the agent's work cannot be kept", err)
		}
	case usable:
		if err := b.git.Remove(ctx, t); err != nil {
			return gitError(ctx, "the worktree of the agent cannot be removed", err)
		}
	}
	return nil
}

// decide says in the record what is kept of the agent's work.
func (b *Place) decide(ctx context.Context, h home, r *record) error {
	t := h.tree(r)
	entries, err := agentfile.ReadDir(t.Dir)
	if !r.Ready || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil // nobody has worked in it
	}
	keep := filepath.Join(b.config.Dir, "kept", label(r.Name, r.UID))
	broken := t.Trouble() != ""
	if broken && len(entries) > 0 {
		r.KeptDir = keep
		r.Kept = fmt.Sprintf("git does not know the worktree of agent %q any more, so its files are kept in %s", r.Name, keep)
		return nil
	}
	var w worktree.Work
	if broken { // without files, all there can be is on the branch
		w.Commits, _ = b.git.Commits(ctx, t)
		err = nil
	} else {
		w, err = b.git.Work(ctx, t)
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil: // rather too much than too little
		r.KeptDir = keep
		r.Kept = fmt.Sprintf("git cannot tell what agent %q has changed, so its files are kept in %s", r.Name, keep)
	case w.Uncommitted:
		r.KeptDir = keep
		r.Kept = fmt.Sprintf("uncommitted work of agent %q is kept in %s, a worktree of %s; the agent's branch is %s", r.Name, keep, r.Repository, r.Branch)
	case w.Commits > 0:
		r.Kept = fmt.Sprintf("the commits of agent %q (%d) are kept on the branch %s of %s", r.Name, w.Commits, r.Branch, r.Repository)
	}
	return nil
}

// empty removes a home that was moved away, its record last, and returns what was kept.
func (b *Place) empty(ctx context.Context, trash home) (string, error) {
	entries, err := agentfile.ReadDir(string(trash))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", runner.HostError("the directory of the agent cannot be removed", err)
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
			return "", runner.HostError("the directory of the agent cannot be removed", err)
		}
	}
	if err := worktree.RemoveAll(string(trash)); err != nil {
		return "", runner.HostError("the directory of the agent cannot be removed", err)
	}
	return kept, nil
}

// gitError is an error of git's, in its own words.
func gitError(ctx context.Context, what string, cause error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ge, ok := errors.AsType[*worktree.Error](cause)
	if !ok {
		return runner.HostError(what, cause)
	}
	return fleet.Errorf(fleet.ReasonProvisioningFailed, "%s: %s", what, ge.Words)
}
