package local

import (
	"context"
	"path/filepath"

	"fleet/internal/fleet"
	"fleet/internal/runner"
	repositories "fleet/internal/runner/repository"
	"fleet/internal/runner/worktree"
)

// repository implements fleet.Repository for a project.
type repository struct {
	repositories.Repository
	place   *Place
	project project
}

// Repository implements fleet.Integrator.
func (p *Place) Repository(name string) (fleet.Repository, error) {
	proj, err := p.project(name)
	if err != nil {
		return nil, err
	}
	if proj.Repository == "" {
		return nil, fleet.Errorf(fleet.ReasonUnimplemented, "the project %q has no repository: set its repository to bring the work of its agents together", name)
	}
	r := repository{repositories.Repository{Git: p.git, Path: p.config.repositoryPath(proj.Repository), StartBranch: proj.Branch, Author: proj.Git}, p, proj}
	if isRemote(proj.Repository) {
		r.Source = proj.Repository
	}
	return r, nil
}

// Check implements fleet.Repository.
func (r repository) Check(ctx context.Context, commit string, c fleet.Check) (fleet.CheckResult, error) {
	result, err := r.place.checks.Run(ctx, c, func(h string) runner.Workspace { return checkWorkspace{r, home(h), commit} }, r.project.Name, r.Path, commit)
	return result, repositories.WrapError(ctx, "cannot check the commit", err)
}

// repositoryPath returns the path of the repository. If the source is a URL, that is the path of the mirror. If the source is
// empty, repositoryPath returns "".
func (c *Config) repositoryPath(source string) string {
	if isRemote(source) {
		return worktree.MirrorPath(filepath.Join(c.Dir, "repositories"), source)
	}
	return source
}

// isRemote reports whether the source of a repository is a URL or host:path, so that the place needs a mirror of it.
func isRemote(source string) bool { return worktree.IsRemote(source) }
