package worktree

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"fleet/internal/fleet"
)

// Move changes a branch of a repository on this machine from b.Commit to a later commit: see fleet.Repository. Where people
// have checked out the branch, Move updates their files before the branch. So if this process is killed in between, the files
// look as if people had made the changes themselves, and never as if they had reverted them.
func (g *Git) Move(ctx context.Context, repository string, b fleet.Branch, to string) (err error) {
	unlock, err := g.lock(ctx, "branches of "+repository)
	if err != nil {
		return err
	}
	defer unlock()
	if err := g.checkMove(ctx, repository, b, to); err != nil {
		return err
	}
	all, err := g.checkouts(ctx, repository, b.Name)
	if err != nil {
		return err
	}
	for i, c := range all {
		if err := c.lockIndex(ctx, b.Name); err != nil {
			return unlockAll(all[:i], err)
		}
	}
	defer func() { err = unlockAll(all, err) }()
	now, err := g.branchCommit(ctx, repository, b.Name)
	if err != nil {
		return err
	}
	for _, c := range all {
		if err := g.rollBackMove(ctx, repository, c, fleet.Branch{Name: b.Name, Commit: now}); err != nil {
			return err
		}
	}
	switch now {
	case to:
		return nil
	case b.Commit:
		return g.move(ctx, repository, b, to, all)
	}
	return branchMovedError(b, now)
}

// unlockAll unlocks the working trees. It returns cause, joined with its own errors.
func unlockAll(all []checkout, cause error) error {
	for _, c := range all {
		if err := c.unlockIndex(); err != nil {
			cause = errors.Join(cause, err)
		}
	}
	return cause
}

// move updates the working trees, which are locked, and then the branch.
func (g *Git) move(ctx context.Context, repository string, b fleet.Branch, to string, all []checkout) error {
	u, err := g.newTreeUpdater(ctx, repository, b, to)
	if err != nil {
		return err
	}
	for _, c := range all {
		if err := u.check(ctx, c); err != nil {
			return err
		}
	}
	ctx = context.WithoutCancel(ctx) // the rest takes a moment, and should not stop in the middle
	for i, c := range all {
		err := c.mark(moveMark{b.Name, b.Commit, to})
		if err == nil {
			err = u.update(ctx, c, b.Commit, to)
		}
		if err != nil {
			if rerr := g.rollBackMove(ctx, repository, c, b); rerr != nil {
				err = errors.Join(err, rerr)
			}
			return u.undo(ctx, all[:i], err)
		}
	}
	change := refChange{name: "refs/heads/" + b.Name, oid: to, old: b.Commit}
	err = g.updateRefsWithMessage(ctx, repository, landedMessage, change)
	for err != nil && removeStaleRefLock(err) {
		err = g.updateRefsWithMessage(ctx, repository, landedMessage, change)
	}
	if err != nil {
		if now, nerr := g.branchCommit(ctx, repository, b.Name); nerr == nil && now != b.Commit {
			err = branchMovedError(b, now)
		}
		return u.undo(ctx, all, err)
	}
	for _, c := range all {
		err = errors.Join(err, c.unmark())
	}
	u.catchUp(ctx, repository, all)
	return err
}

// landedMessage is the message in the reflog of a branch that gets landed work.
const landedMessage = "fleet: landed work"

// branchMovedError returns BRANCH_MOVED.
func branchMovedError(b fleet.Branch, now string) error {
	if now == "" {
		return fleet.Errorf(fleet.ReasonBranchMoved, "the branch %q no longer exists", b.Name)
	}
	return fleet.Errorf(fleet.ReasonBranchMoved, "the branch %q is no longer at %s: it is at %s", b.Name, b.Commit, now).With("commit", now)
}

// checkMove returns an error unless the repository has the commit to, and b.Commit is in the history of that commit.
func (g *Git) checkMove(ctx context.Context, repository string, b fleet.Branch, to string) error {
	if err := g.RequireCommit(ctx, repository, to); err != nil {
		return err
	}
	ok, err := g.Contains(ctx, repository, to, b.Commit)
	if err == nil && !ok {
		err = fleet.InvalidField("to", "the commit %s does not have the commit %s of the branch %q in its history", to, b.Commit, b.Name)
	}
	return err
}

// branchCommit returns the newest commit of the branch; empty if there is no such branch.
func (g *Git) branchCommit(ctx context.Context, repository, name string) (string, error) {
	refs, err := g.refs(ctx, Tree{Repository: repository})
	return refs["refs/heads/"+name].oid, err
}

// blockingFile returns the first untracked file of the working tree that one of the changed files would replace, or an empty string if
// there is none. git itself overwrites such a file if it is ignored.
func (c checkout) blockingFile(changed []changedFile) string {
	tracked := map[string]bool{}
	for _, f := range changed {
		tracked[f.path] = strings.Trim(f.old, "0") != ""
	}
	for _, f := range changed {
		if tracked[f.path] {
			continue
		}
		info, err := os.Lstat(filepath.Join(c.dir, f.path))
		if err != nil || hasTrackedParent(tracked, f.path) {
			continue // the path does not exist, or it is below a link that becomes a directory
		}
		if !info.IsDir() {
			return f.path
		}
		found := ""
		_ = filepath.WalkDir(filepath.Join(c.dir, f.path), func(path string, d fs.DirEntry, err error) error {
			if name, rerr := filepath.Rel(c.dir, path); err == nil && rerr == nil && !d.IsDir() && !tracked[name] {
				found = name
				return fs.SkipAll
			}
			return nil
		})
		if found != "" {
			return found
		}
	}
	return ""
}

// hasTrackedParent reports whether one of the path's directories was a tracked file before the change.
func hasTrackedParent(tracked map[string]bool, path string) bool {
	for dir := filepath.Dir(path); dir != "."; dir = filepath.Dir(dir) {
		if tracked[dir] {
			return true
		}
	}
	return false
}

// MoveSource changes a branch of a mirror's source, and of the mirror, from b.Commit to a later commit.
func (g *Git) MoveSource(ctx context.Context, source, mirror string, b fleet.Branch, to string) error {
	unlock, err := g.lock(ctx, "branches of "+mirror)
	if err != nil {
		return err
	}
	defer unlock()
	if err := g.checkMove(ctx, mirror, b, to); err != nil {
		return err
	}
	if err := g.push(ctx, pushRequest{repository: mirror, remote: "origin", url: source, branch: b.Name, commit: to, lease: b.Commit}); err != nil {
		if moved, ok := errors.AsType[*fleet.Error](err); ok && moved.Reason == fleet.ReasonBranchMoved {
			if now, ferr := g.Branch(ctx, mirror, source, b.Name); ferr == nil && now.Commit == to {
				return nil // an interrupted call has moved it
			}
		}
		return err
	}
	return g.updateRefs(context.WithoutCancel(ctx), mirror, refChange{name: remoteBranchPrefix + b.Name, oid: to})
}
