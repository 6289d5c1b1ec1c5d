// Package repository combines work in a git repository on this machine. The place local and fleet-runner use it to implement
// fleet.Repository. The caller selects the repository and decides how checks are confined.
package repository

import (
	"cmp"
	"context"
	"errors"

	"fleet/internal/fleet"
	"fleet/internal/runner"
	"fleet/internal/runner/worktree"
)

// Repository implements fleet.Repository except Check, because the caller decides how checks are confined.
type Repository struct {
	Git         *worktree.Git
	Path        string        // path of the repository or, if Source is set, of its mirror
	Source      string        // URL of the repository; empty if the repository is on this machine
	StartBranch string        // the branch at which work begins; empty: the default branch
	Author      runner.Author // author of combined work that names no author; git's settings replace missing fields
}

// Collect implements fleet.Repository for work that is already in the repository.
func (r Repository) Collect(ctx context.Context, _ fleet.Agent, c fleet.Changes) error {
	return WrapError(ctx, "cannot find the work", r.Git.RequireCommit(ctx, r.Path, c.Commit))
}

// Branch implements fleet.Repository.
func (r Repository) Branch(ctx context.Context, name string) (fleet.Branch, error) {
	b, err := r.Git.Branch(ctx, r.Path, r.Source, cmp.Or(name, r.StartBranch))
	return b, WrapError(ctx, "cannot read the branch", err)
}

// Contains implements fleet.Repository.
func (r Repository) Contains(ctx context.Context, commit, older string) (bool, error) {
	ok, err := r.Git.Contains(ctx, r.Path, commit, older)
	return ok, WrapError(ctx, "cannot read the history", err)
}

// Combine implements fleet.Repository.
func (r Repository) Combine(ctx context.Context, c fleet.Combination) (fleet.CombineResult, error) {
	if c.Author.Email == "" {
		author := r.Author
		author.Name = cmp.Or(author.Name, r.Git.Setting(ctx, r.Path, "user.name"))
		author.Email = cmp.Or(author.Email, r.Git.Setting(ctx, r.Path, "user.email"))
		c.Author = fleet.Person(author.WithDefaults(c.Author.Name))
	}
	result, err := r.Git.Combine(ctx, r.Path, c)
	return result, WrapError(ctx, "cannot combine the work with the branch", err)
}

// Overlaps implements fleet.Repository.
func (r Repository) Overlaps(ctx context.Context, onto string, all []fleet.Contribution) ([]fleet.WorkOverlap, error) {
	overlaps, err := r.Git.Overlaps(ctx, r.Path, onto, all)
	return overlaps, WrapError(ctx, "cannot compare the work", err)
}

// Move implements fleet.Repository. If Source is set, it first pushes to Source.
func (r Repository) Move(ctx context.Context, b fleet.Branch, to string) error {
	if r.Source != "" {
		return WrapError(ctx, "cannot push to the branch", r.Git.MoveSource(ctx, r.Source, r.Path, b, to))
	}
	return WrapError(ctx, "cannot move the branch", r.Git.Move(ctx, r.Path, b, to))
}

// Push implements fleet.Repository.
func (r Repository) Push(ctx context.Context, p fleet.Push) (fleet.PushResult, error) {
	result, err := r.Git.Push(ctx, r.Path, r.Source, p)
	return result, WrapError(ctx, "cannot push", err)
}

// WrapError returns err in the form in which places report errors. what names the failed action, such as "cannot push".
func WrapError(ctx context.Context, what string, err error) error {
	if _, ok := errors.AsType[*fleet.Error](err); err == nil || ok {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if e, ok := errors.AsType[*worktree.Error](err); ok {
		return fleet.Errorf(fleet.ReasonProvisioningFailed, "%s: %s", what, e.Message)
	}
	return runner.HostError(what, err)
}
