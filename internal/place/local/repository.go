package local

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"

	"fleet/internal/fleet"
	"fleet/internal/runner"
	"fleet/internal/runner/worktree"
)

// repository implements fleet.Repository for a project.
type repository struct {
	place   *Place
	project project
	path    string // of the repository or, if it has a URL, of its mirror
	source  string // the URL; empty: the repository is on this machine
}

// Repository implements fleet.Integrator.
func (p *Place) Repository(name string) (fleet.Repository, error) {
	proj, err := p.project(name)
	if err != nil {
		return nil, err
	}
	r := repository{place: p, project: proj, path: proj.Repository}
	switch {
	case proj.Repository == "":
		return nil, fleet.Errorf(fleet.ReasonUnimplemented, "the project %q has no repository: set its repository to bring the work of its agents together", name)
	case isRemote(proj.Repository):
		r.path, r.source = worktree.Mirror(filepath.Join(p.config.Dir, "repositories"), proj.Repository), proj.Repository
	}
	return r, nil
}

// Collect implements fleet.Repository. Runner.Changes has stored the commit.
func (r repository) Collect(ctx context.Context, _ fleet.Agent, c fleet.Changes) error {
	return r.wrap(ctx, "cannot find the work", r.place.git.Has(ctx, r.path, c.Commit))
}

// Branch implements fleet.Repository.
func (r repository) Branch(ctx context.Context, name string) (fleet.Branch, error) {
	if name == "" {
		name = r.project.Branch
	}
	b, err := r.place.git.Branch(ctx, r.path, r.source, name)
	return b, r.wrap(ctx, "cannot read the branch", err)
}

// Contains implements fleet.Repository.
func (r repository) Contains(ctx context.Context, commit, older string) (bool, error) {
	ok, err := r.place.git.Contains(ctx, r.path, commit, older)
	return ok, r.wrap(ctx, "cannot read the history", err)
}

// Combine implements fleet.Repository.
func (r repository) Combine(ctx context.Context, c fleet.Combination) (fleet.Combined, error) {
	if c.Author.Email == "" {
		author := r.project.Git
		author.Name = cmp.Or(author.Name, r.place.git.Setting(ctx, r.path, "user.name"))
		author.Email = cmp.Or(author.Email, r.place.git.Setting(ctx, r.path, "user.email"))
		c.Author = fleet.Person(author.OfAgent(c.Author.Name))
	}
	result, err := r.place.git.Combine(ctx, r.path, c)
	return result, r.wrap(ctx, "cannot combine the work with the branch", err)
}

// Overlaps implements fleet.Repository.
func (r repository) Overlaps(ctx context.Context, onto string, all []fleet.Contribution) ([]fleet.WorkOverlap, error) {
	found, err := r.place.git.Overlaps(ctx, r.path, onto, all)
	return found, r.wrap(ctx, "cannot compare the work", err)
}

// Move implements fleet.Repository. In a repository with a URL, it first pushes to the source.
func (r repository) Move(ctx context.Context, b fleet.Branch, to string) error {
	if r.source != "" {
		return r.wrap(ctx, "cannot push to the branch", r.place.git.MoveSource(ctx, r.source, r.path, b, to))
	}
	return r.wrap(ctx, "cannot move the branch", r.place.git.Move(ctx, r.path, b, to))
}

// Push implements fleet.Repository.
func (r repository) Push(ctx context.Context, p fleet.Push) (fleet.Pushed, error) {
	pushed, err := r.place.git.Push(ctx, r.path, r.source, p)
	return pushed, r.wrap(ctx, "cannot push", err)
}

// Keep implements fleet.Repository.
func (r repository) Keep(ctx context.Context, name, commit string) error {
	return r.wrap(ctx, "cannot keep the commit", r.place.git.Keep(ctx, r.path, name, commit))
}

// Forget implements fleet.Repository.
func (r repository) Forget(ctx context.Context, name string) error {
	return r.wrap(ctx, "cannot forget the commit", r.place.git.Forget(ctx, r.path, name))
}

// wrap returns the error of an operation in the form of a place.
func (r repository) wrap(ctx context.Context, what string, err error) error {
	if _, ok := errors.AsType[*fleet.Error](err); err == nil || ok {
		return err
	}
	if _, ok := errors.AsType[*worktree.Error](err); ok || ctx.Err() != nil {
		return gitError(ctx, what, err)
	}
	return runner.HostError(what, err)
}
