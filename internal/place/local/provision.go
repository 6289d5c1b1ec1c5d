package local

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/runner"
	repositories "fleet/internal/runner/repository"
	"fleet/internal/runner/sandbox"
	"fleet/internal/runner/shim"
	"fleet/internal/runner/worktree"
)

// Provision implements fleet.Place. It also completes an interrupted call, and moves the kept home of a deleted agent back.
func (p *Place) Provision(ctx context.Context, a fleet.Agent) (fleet.Workspace, error) {
	if err := ctx.Err(); err != nil {
		return fleet.Workspace{}, err
	}
	h := p.home(a.UID)
	if err := p.restore(ctx, a); err != nil {
		return fleet.Workspace{}, err
	}
	r, err := h.record()
	if err != nil {
		return fleet.Workspace{}, runner.HostError("cannot read the agent's record", err)
	}
	if r == nil || !r.Ready || r.Deleting {
		if err := p.createHome(ctx, a, h); err != nil {
			return fleet.Workspace{}, err
		}
	}
	w, _ := p.inspectHome(h)
	return w, nil
}

// createHome creates the agent's home and its working directory. It records a failure in the record.
func (p *Place) createHome(ctx context.Context, a fleet.Agent, h home) error {
	proj, err := p.agentProject(a)
	if err == nil {
		_, err = proj.role(a.Role)
	}
	if err == nil && proj.modelConfig == nil {
		if reason := p.closedReason(a.Project, a.Role); reason != "" {
			err = errors.New(reason)
		}
	}
	if err != nil {
		return fleet.Errorf(fleet.ReasonProvisioningFailed, "%s", fleet.PublicMessage(err))
	}
	if _, err := runner.FindProgram(proj.driver.Program(), p.environ(proj, nil, nil), ""); err != nil {
		return err
	}
	r := &record{
		UID: a.UID, Name: a.Name, Owner: a.Owner, Project: proj.Name, Role: a.Role, Spec: a.Spec, CreatedAt: time.Now().UTC().Truncate(time.Second),
		Dir: proj.dir, WorksInResults: proj.worksInResults, ModelConfig: proj.modelConfig, Repository: p.config.repositoryPath(proj.Repository),
	}
	if err = runner.Home(h).Make(); err == nil {
		err = h.writeRecord(r)
	}
	if err != nil {
		return runner.HostError("cannot create the agent's directory", err)
	}
	if err := p.createWorkDir(ctx, proj, h, r); err != nil {
		if ctx.Err() == nil {
			h.appendLog("the workspace could not be created: %s", fleet.PublicMessage(err))
			// Without Failure, a listing would show the workspace as still being created.
			r.Failure = fleet.PublicMessage(err)
			err = errors.Join(err, h.writeRecord(r))
		}
		return err
	}
	r.Ready = true
	if err := h.writeRecord(r); err != nil {
		return runner.HostError("cannot create the agent's directory", err)
	}
	if r.Repository != "" {
		h.appendLog("created the worktree %s of %s on the branch %s", h.workDir(), worktree.Scrub(proj.Repository), r.Branch)
	} else {
		h.appendLog("created the directory %s", cmp.Or(r.Dir, h.workDir()))
	}
	return nil
}

// createWorkDir creates the working directory of a new agent. It replaces a worktree that an interrupted call has left.
func (p *Place) createWorkDir(ctx context.Context, proj project, h home, r *record) error {
	if r.Repository == "" {
		err := os.MkdirAll(h.workDir(), 0o700)
		if err == nil && proj.worksInResults {
			err = os.MkdirAll(proj.dir, 0o700)
		}
		if err != nil {
			return runner.HostError("cannot create the agent's directory", err)
		}
		return nil
	}
	if isRemote(proj.Repository) {
		if err := p.git.Fetch(ctx, proj.Repository, r.Repository); err != nil {
			return repositories.WrapError(ctx, "cannot fetch the project's repository", err)
		}
	} else if err := p.git.Check(ctx, r.Repository); err != nil {
		return repositories.WrapError(ctx, "cannot use the project's repository", err)
	}
	branch, err := p.git.AgentBranch(ctx, r.Repository, uniqueLabel(r.Name, r.UID))
	if err != nil {
		return repositories.WrapError(ctx, "cannot use the project's repository", err)
	}
	r.Branch = branch
	if err := h.writeRecord(r); err != nil { // so that a deletion finds the branch if this call is interrupted
		return runner.HostError("cannot create the agent's directory", err)
	}
	t, err := p.newTree(ctx, proj, h, r)
	if err != nil {
		return err
	}
	add := p.git.Add
	if _, err := os.Stat(h.workDir()); err == nil {
		add = p.git.Recreate
	}
	if err := add(ctx, t, proj.Branch); err != nil {
		return repositories.WrapError(ctx, "cannot create the agent's worktree", err)
	}
	return nil
}

// newTree returns the agent's tree with the settings for a new git directory: who is the author of commits, and whether
// they are signed.
func (p *Place) newTree(ctx context.Context, proj project, h home, r *record) (worktree.Tree, error) {
	t := h.tree(r)
	mode, err := p.requiredSandbox(proj)
	if err != nil {
		return t, err
	}
	author := proj.Git
	if mode == sandbox.None { // the agent's git reads the user's settings, so Fleet adds only those that are missing
		user := runner.Author{Name: p.git.Setting(ctx, r.Repository, "user.name"), Email: p.git.Setting(ctx, r.Repository, "user.email")}
		defaults := user.WithDefaults(r.Name)
		if user.Name == "" {
			author.Name = cmp.Or(author.Name, defaults.Name)
		}
		if user.Email == "" {
			author.Email = cmp.Or(author.Email, defaults.Email)
		}
	} else {
		if dir := worktree.InaccessibleDir(r.Repository); dir != "" {
			return t, fleet.Errorf(fleet.ReasonProvisioningFailed,
				"confined agents may not read %s, because they have none of root's rights: allow everybody to read it, or run the server as its owner", dir)
		}
		t.Settings = runner.NoSigning
		if p.git.Setting(ctx, r.Repository, "commit.gpgSign") == "true" {
			h.appendLog("the agent's commits are not signed although commit.gpgSign is set, because the agent has no access to your keys")
		}
	}
	t.Settings += author.GitConfig()
	return t, ctx.Err()
}

// Start implements fleet.Place. It also retries a provisioning that has failed, creates a missing working directory again, with a
// worktree from the agent's branch, and moves the kept home of a deleted agent back.
func (p *Place) Start(ctx context.Context, a fleet.Agent) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	h := p.home(a.UID)
	if err := p.restore(ctx, a); err != nil {
		return err
	}
	if !h.exists() {
		return fleet.Errorf(fleet.ReasonProvisioningFailed, "its directory %s no longer exists: delete the agent", h)
	}
	r, err := h.record()
	switch {
	case err != nil:
		return runner.HostError("cannot read the agent's record", err)
	case r == nil || !r.Ready || r.Deleting:
		return p.createHome(ctx, a, h)
	}
	if _, err := os.Stat(h.workDir()); errors.Is(err, fs.ErrNotExist) {
		if r.Repository == "" {
			err = os.MkdirAll(h.workDir(), 0o700)
		} else {
			err = p.restoreWorktree(ctx, a, h, r)
		}
		if err != nil {
			return repositories.WrapError(ctx, "cannot create the agent's directory again", err)
		}
	}
	if r.Role != a.Role || r.Spec != a.Spec {
		r.Role, r.Spec = a.Role, a.Spec
		if err := h.writeRecord(r); err != nil {
			return runner.HostError("cannot write the agent's record", err)
		}
	}
	switch err := os.Remove(h.join("stopped")); {
	case err == nil:
		h.appendLog("started")
	case !errors.Is(err, fs.ErrNotExist):
		return runner.HostError("cannot start the agent", err)
	}
	return ctx.Err()
}

// restoreWorktree restores a missing worktree from the agent's branch.
func (p *Place) restoreWorktree(ctx context.Context, a fleet.Agent, h home, r *record) error {
	proj, err := p.agentProject(a)
	if err != nil {
		return err
	}
	t, err := p.newTree(ctx, proj, h, r)
	if err != nil {
		return err
	}
	return p.git.Add(ctx, t, r.Branch)
}

// Stop implements fleet.Place.
func (p *Place) Stop(ctx context.Context, a fleet.Agent) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	h := p.home(a.UID)
	if !h.exists() {
		return nil
	}
	if !h.isStopped() {
		// The file is written before the run is ended, so that no new run starts.
		if err := shim.WriteFile(h.join("stopped"), nil); err != nil {
			return runner.HostError("cannot stop the agent", err)
		}
		h.appendLog("stopped")
	}
	return p.host.End(ctx, runner.Home(h), "its agent was stopped")
}
