package main

import (
	"context"
	"os"
	"path/filepath"

	"fleet/internal/fleet"
	"fleet/internal/runner"
	"fleet/internal/runner/driver"
	repositories "fleet/internal/runner/repository"
	"fleet/internal/runner/worktree"
)

// checkWorkspace is the workspace in which a commit is checked. It implements runner.Workspace.
type checkWorkspace struct {
	repository
	home, commit string
}

// Ready implements runner.Workspace.
func (w checkWorkspace) Ready() error { return nil }

// Tree implements runner.Workspace.
func (w checkWorkspace) Tree() (*runner.Tree, error) { return nil, nil } //nolint:nilnil // no work of an agent is in the tree

// Work implements runner.Workspace. It creates the tree. The check has the environment of the agent without the keys of the agent's
// program, and its own directory for temporary files.
func (w checkWorkspace) Work(fleet.Run) (runner.Work, error) {
	ctx := context.Background() // git's own limit applies
	if err := w.checks.Clear(ctx, w.home); err != nil {
		return runner.Work{}, runner.HostError("cannot remove the tree of the check", err)
	}
	tmp := filepath.Join(w.home, "tmp")
	if err := os.Mkdir(tmp, 0o700); err != nil {
		return runner.Work{}, runner.HostError("cannot create the directory for temporary files", err)
	}
	tree := worktree.Tree{Repository: w.Path, Dir: filepath.Join(w.home, "work"), GitDir: filepath.Join(w.home, "git"), Settings: runner.NoSigning + w.Author.GitConfig()}
	if err := w.Git.CleanTree(ctx, tree, w.commit); err != nil {
		return runner.Work{}, repositories.WrapError(ctx, "cannot create the tree of the check", err)
	}
	d, err := driver.New(driver.Options{Kind: "shell"})
	return runner.Work{Driver: d, Dir: tree.Dir, Environ: func(runVariables map[string]string) []string {
		for _, name := range []string{"FLEET_TASK_ID", "FLEET_AGENT", "FLEET_ROLE", "FLEET_PROJECT"} {
			delete(runVariables, name)
		}
		runVariables["FLEET_COMMIT"], runVariables["TMPDIR"] = w.commit, tmp
		return runner.WithoutVariables(environ(runVariables), w.agentDriver.Keys())
	}}, err
}
