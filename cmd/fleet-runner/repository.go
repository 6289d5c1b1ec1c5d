package main

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/runner"
	"fleet/internal/runner/remote"
	repositories "fleet/internal/runner/repository"
	"fleet/internal/runner/worktree"
)

// checkLinger is how long the check of a commit continues without a waiting caller, so that the next server can take it over.
const checkLinger = 2 * time.Minute

// landingDir returns the directory of the copies of repositories and of the checks of commits, or the path of the parts below it.
func (m *machine) landingDir(parts ...string) string {
	return filepath.Join(append([]string{m.stateDir, "landing"}, parts...)...)
}

// repository is a copy of the project's repository, in which the work of several agents is combined. It is not the agent's clone,
// in which the agent decides what git does.
type repository struct {
	repositories.Repository
	*machine
	clone string // directory of the agent's clone
}

// Repository implements remote.Repositories.
func (m *machine) Repository(ctx context.Context, a fleet.Agent, s remote.Source) (remote.Repository, error) {
	tree, err := workspace{m, a, ""}.Tree()
	if err != nil {
		return nil, err
	}
	if tree == nil {
		return nil, fleet.Errorf(fleet.ReasonUnimplemented, "the agent %q does not work in a git repository: set -dir of its fleet-runner to a clone of the project's repository", a.Name)
	}
	if s.URL == "" {
		if s.URL, err = m.git.RemoteURL(ctx, tree.Dir); err != nil {
			return nil, repositories.WrapError(ctx, "cannot find the project's repository", err)
		}
	}
	return repository{repositories.Repository{Git: m.git, Path: worktree.MirrorPath(m.landingDir(), s.URL), Source: s.URL, StartBranch: s.Branch}, m, tree.Dir}, nil
}

// ensureCopy creates the copy if it does not exist. This can take long, so the fetch continues after the caller has stopped waiting.
func (r repository) ensureCopy(ctx context.Context) error {
	if _, err := os.Stat(r.Path); err == nil {
		return nil
	}
	done := make(chan error, 1)
	go func() { done <- r.Git.Fetch(context.WithoutCancel(ctx), r.Source, r.Path) }()
	select {
	case err := <-done:
		return repositories.WrapError(ctx, "cannot fetch the project's repository", err)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Branch implements remote.Repository.
func (r repository) Branch(ctx context.Context, name string) (fleet.Branch, error) {
	if err := r.ensureCopy(ctx); err != nil {
		return fleet.Branch{}, err
	}
	return r.Repository.Branch(ctx, name)
}

// Collect implements remote.Repository. It also copies Git LFS files of the commit from the clone.
func (r repository) Collect(ctx context.Context, commit string) (c remote.CollectResult, err error) {
	if err := r.ensureCopy(ctx); err != nil {
		return c, err
	}
	err = repositories.WrapError(ctx, "cannot copy the work", r.Git.CopyCommit(ctx, r.Path, commit, r.clone))
	switch {
	case fleet.ReasonOf(err) == fleet.ReasonChangesNotFound:
		c.Have, err = r.Git.Tips(ctx, r.Path)
		return c, repositories.WrapError(ctx, "cannot read the branches", err)
	case err != nil:
		return c, err
	}
	c.Found = true
	missingDigests, err := r.Git.MissingLFS(ctx, r.Path, commit)
	for _, digest := range missingDigests {
		copied, copyErr := r.Git.CopyLFS(r.Path, digest, r.clone)
		if err = errors.Join(err, copyErr); !copied {
			c.MissingLFS = append(c.MissingLFS, digest)
		}
	}
	return c, repositories.WrapError(ctx, "cannot copy files of Git LFS", err)
}

// WriteLFS implements remote.Repository.
func (r repository) WriteLFS(ctx context.Context, digest string, out io.Writer) error {
	err := r.Git.ReadLFS(r.clone, digest, out)
	if errors.Is(err, fs.ErrNotExist) {
		return fleet.Errorf(fleet.ReasonChangesNotFound, "the clone does not have the content of the Git LFS file %s", fleet.Shorten(digest, 64))
	}
	return repositories.WrapError(ctx, "cannot read a file of Git LFS", err)
}

// AddLFS implements remote.Repository.
func (r repository) AddLFS(ctx context.Context, digest string, in io.Reader) (ok bool, err error) {
	if err := r.ensureCopy(ctx); err != nil {
		return false, err
	}
	ok, err = r.Git.AddLFS(r.Path, digest, in)
	return ok, repositories.WrapError(ctx, "cannot add a file of Git LFS", err)
}

// Unpack implements remote.Repository.
func (r repository) Unpack(ctx context.Context, commit string, in io.Reader) (found bool, err error) {
	if err := r.ensureCopy(ctx); err != nil {
		return false, err
	}
	err = r.Git.Unpack(ctx, r.Path, commit, in)
	if errors.Is(err, worktree.ErrIncomplete) {
		r.logger.WarnContext(ctx, "work is incomplete", "commit", commit, "err", err)
		return false, nil
	}
	return err == nil, repositories.WrapError(ctx, "cannot add the work", err)
}

// Pack implements remote.Repository.
func (r repository) Pack(ctx context.Context, commit string, have []string, whole bool, out io.Writer) error {
	return repositories.WrapError(ctx, "cannot pack the work", r.Git.Pack(ctx, r.clone, commit, have, !whole, out))
}

// Combine implements remote.Repository. If c has no address of an author, Combine uses the author of the work's own
// commits, so that each workspace makes the same commit, whatever author is configured for its git.
func (r repository) Combine(ctx context.Context, c fleet.Combination) (fleet.CombineResult, error) {
	if c.Author.Email == "" {
		author, err := r.Git.AuthorOf(ctx, r.Path, c.Contribution)
		if err != nil {
			return fleet.CombineResult{}, repositories.WrapError(ctx, "cannot read the work", err)
		}
		if author.Email == "" {
			author = fleet.Person(runner.Author{}.WithDefaults(c.Author.Name))
		}
		c.Author = author
	}
	return r.Repository.Combine(ctx, c)
}

// Push implements remote.Repository.
func (r repository) Push(ctx context.Context, p fleet.Push) (fleet.PushResult, error) {
	result, err := r.Git.Push(ctx, r.clone, "", p)
	return result, repositories.WrapError(ctx, "cannot push", err)
}

// Check implements remote.Repository.
func (r repository) Check(ctx context.Context, commit string, c fleet.Check) (fleet.CheckResult, error) {
	if err := r.checks.Tidy(ctx, time.Now()); err != nil {
		r.logger.WarnContext(ctx, "files of old checks remain", "err", err)
	}
	result, err := r.checks.Run(ctx, c, func(home string) runner.Workspace { return checkWorkspace{r, home, commit} }, r.Path, commit)
	return result, repositories.WrapError(ctx, "cannot check the commit", err)
}
