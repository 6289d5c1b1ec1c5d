package local

import (
	"context"
	"path/filepath"
	"slices"

	"fleet/internal/fleet"
	"fleet/internal/runner"
	"fleet/internal/runner/driver"
	repositories "fleet/internal/runner/repository"
	"fleet/internal/runner/sandbox"
	"fleet/internal/runner/worktree"
)

// checkWorkspace is the workspace in which a commit is checked. It has a home like that of an agent, and its own tree. It implements
// runner.Workspace.
type checkWorkspace struct {
	repository
	home   home
	commit string
}

// Ready implements runner.Workspace.
func (t checkWorkspace) Ready() error { return nil }

// Tree implements runner.Workspace.
func (t checkWorkspace) Tree() (*runner.Tree, error) { return nil, nil } //nolint:nilnil // no work of an agent is in the tree

// Work implements runner.Workspace. It creates the home and the tree anew.
func (t checkWorkspace) Work(fleet.Run) (runner.Work, error) {
	proj, p := t.project, t.place
	mode, err := p.requiredSandbox(proj)
	if err != nil {
		return runner.Work{}, err
	}
	ctx := context.Background() // git's own limit applies
	if err := p.checks.Clear(ctx, string(t.home)); err != nil {
		return runner.Work{}, runner.HostError("cannot remove the tree of the check", err)
	}
	rec := &record{Name: proj.Name, Project: proj.Name, Repository: t.Path}
	tree := t.home.tree(rec)
	if tree.Settings = runner.NoSigning + proj.Git.GitConfig(); mode != sandbox.None {
		if dir := worktree.InaccessibleDir(t.Path); dir != "" {
			return runner.Work{}, fleet.Errorf(fleet.ReasonProvisioningFailed, "confined checks may not read %s: allow everybody to read it, or run the server as its owner", dir)
		}
	}
	if err := p.git.CleanTree(ctx, tree, t.commit); err != nil {
		return runner.Work{}, repositories.WrapError(ctx, "cannot create the tree of the check", err)
	}
	patterns := slices.Concat(proj.driver.Keys(), keyVariables[filepath.Base(proj.driver.Program())])
	if proj.driver, err = driver.New(driver.Options{Kind: "shell"}); err != nil { // the check gets neither the login nor the key of the agents' program
		return runner.Work{}, err
	}
	c, err := p.confine(proj, t.home, rec)
	if err != nil {
		return runner.Work{}, err
	}
	w := runner.Work{Driver: proj.driver, Job: driver.Job{Project: proj.Name}, Dir: tree.Dir}
	if c != nil {
		w.Sandbox = &c.policy
	} else {
		c = &confinement{env: t.home.environ()}
		if err := p.prepareHome(proj, t.home, rec, c); err != nil {
			return runner.Work{}, err
		}
	}
	w.Environ = func(taskVariables map[string]string) []string {
		for _, name := range []string{"FLEET_TASK_ID", "FLEET_AGENT", "FLEET_ROLE"} {
			delete(taskVariables, name)
		}
		taskVariables["FLEET_COMMIT"] = t.commit
		return runner.WithoutVariables(p.environ(proj, c, taskVariables), patterns)
	}
	return w, nil
}
