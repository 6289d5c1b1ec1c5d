package worktree

import (
	"context"

	"fleet/internal/runner/gitfiles"
)

// Contains reports whether the history of the commit has the older commit. It is false if the repository lacks one of them.
func (g *Git) Contains(ctx context.Context, repository, commit, older string) (bool, error) {
	if !gitfiles.IsOID(commit) || !gitfiles.IsOID(older) {
		return false, nil
	}
	v, err := g.openRepository(repository)
	if err != nil {
		return false, err
	}
	defer v.close()
	if found, err := v.existingObjects(ctx, []string{commit, older}); err != nil || len(found) < 2 {
		return false, err
	}
	return v.contains(ctx, commit, older)
}

// contains reports whether the history of the commit has the older commit.
func (v *view) contains(ctx context.Context, commit, older string) (bool, error) {
	if commit == older {
		return true, nil
	}
	_, err := v.run(ctx, "merge-base", "--is-ancestor", older, commit)
	if exitCode(err) == 1 {
		return false, nil
	}
	return err == nil, err
}

// RequireCommit returns CHANGES_NOT_FOUND if the repository does not have the commit.
func (g *Git) RequireCommit(ctx context.Context, repository, commit string) error {
	v, err := g.openRepository(repository)
	if err != nil {
		return err
	}
	defer v.close()
	if !gitfiles.IsOID(commit) {
		return lostCommitError(commit)
	}
	found, err := v.existingObjects(ctx, []string{commit})
	if err == nil && len(found) == 0 {
		err = lostCommitError(commit)
	}
	return err
}
