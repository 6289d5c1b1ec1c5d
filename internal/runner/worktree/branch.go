package worktree

import (
	"context"
	"maps"
	"strings"

	"fleet/internal/fleet"
)

// Branch returns the branch with the name and its newest commit. If name is empty, Branch uses the branch that people have
// checked out in the repository or, in a mirror, the default branch of its source. source is the URL of a mirror's source, from
// which Branch first fetches. It is empty for any other repository. Branch returns BRANCH_NOT_FOUND if there is no such branch, or if it is
// a symbolic ref, which names another branch.
func (g *Git) Branch(ctx context.Context, repository, source, name string) (fleet.Branch, error) {
	prefix := "refs/heads/"
	if source == "" && commonDir(repository) == "" {
		return fleet.Branch{}, noRepositoryError(repository)
	}
	if source != "" {
		if err := g.Fetch(ctx, source, repository); err != nil {
			return fleet.Branch{}, err
		}
		prefix = remoteBranchPrefix
	}
	if name == "" {
		var err error
		if name, err = g.defaultBranch(ctx, repository, prefix); err != nil {
			return fleet.Branch{}, err
		}
	}
	refs, err := g.refs(ctx, Tree{Repository: repository})
	if err != nil {
		return fleet.Branch{}, err
	}
	maps.DeleteFunc(refs, func(_ string, r ref) bool { return r.target != "" })
	b := fleet.Branch{Name: name, Commit: refs[prefix+name].oid}
	switch {
	case b.Commit != "":
		return b, nil
	case refs[remoteBranchPrefix+name].oid != "":
		return b, fleet.Errorf(fleet.ReasonBranchNotFound, "the repository has no branch %q, but its remote has one: create it with git branch %s origin/%s", name, name, name)
	}
	return b, fleet.Errorf(fleet.ReasonBranchNotFound, "the repository has no branch %q", fleet.Shorten(name, 200))
}

// remoteBranchPrefix is the prefix of the refs for the branches of a mirror's source.
const remoteBranchPrefix = "refs/remotes/origin/"

// defaultBranch returns the name of the branch that HEAD names. If prefix is remoteBranchPrefix, the HEAD of the mirror's source counts.
func (g *Git) defaultBranch(ctx context.Context, repository, prefix string) (string, error) {
	head := "HEAD"
	if prefix == remoteBranchPrefix {
		head = remoteBranchPrefix + "HEAD"
	}
	full, err := g.run(ctx, repository, "symbolic-ref", "--quiet", head)
	if name, ok := strings.CutPrefix(full, prefix); ok && err == nil {
		return name, nil
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	return "", fleet.Errorf(fleet.ReasonBranchNotFound, "no branch is checked out in the repository: name the branch, or set the project's branch")
}
