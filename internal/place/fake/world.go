package fake

import (
	"slices"
	"strings"

	"fleet/internal/fleet"
)

// The following methods read and change the world without Fleet. A ref is the name (in upper or lower case) or the uid
// of an agent, or the id of a workspace. Methods that change a workspace panic if there is no such workspace.

// Workspace returns the workspace, and whether it exists. The call does not count as a poll for Config.BuildPolls.
func (p *Place) Workspace(ref string) (fleet.Workspace, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.lookup(ref)
	if w == nil {
		return fleet.Workspace{}, false
	}
	p.finishBuild(w)
	return w.view(), true
}

// Workspaces returns all workspaces, oldest first. The call does not count as a poll for Config.BuildPolls.
func (p *Place) Workspaces() []fleet.Workspace {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []fleet.Workspace
	for _, w := range p.workspaces {
		p.finishBuild(w)
		all = append(all, w.view())
	}
	return all
}

// AddWorkspace adds a workspace that Fleet did not provision, and returns it. The default state is running. By default, the
// workspace gets a new id.
func (p *Place) AddWorkspace(w fleet.Workspace) fleet.Workspace {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := &workspace{Workspace: w}
	if n.State == "" {
		n.State = fleet.StateRunning
	}
	p.add(n)
	return n.view()
}

// changeWorkspace calls change with the workspace, while it holds the world's mutex.
func (p *Place) changeWorkspace(ref string, change func(w *workspace)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(p.mustFind(ref))
}

// StopWorkspace stops the workspace. The run in the workspace fails.
func (p *Place) StopWorkspace(ref string) {
	p.changeWorkspace(ref, func(w *workspace) { p.halt(w, fleet.TaskFailed) })
}

// StartWorkspace starts the workspace.
func (p *Place) StartWorkspace(ref string) {
	p.changeWorkspace(ref, func(w *workspace) { p.build(w) })
}

// DeleteWorkspace deletes the workspace. The run in the workspace fails.
func (p *Place) DeleteWorkspace(ref string) {
	p.changeWorkspace(ref, func(w *workspace) { p.destroy(w, fleet.TaskFailed) })
}

// HideWorkspace makes the host stop showing the workspace, until ShowWorkspace. The run in it continues.
func (p *Place) HideWorkspace(ref string) { p.setHidden(ref, true) }

// ShowWorkspace undoes HideWorkspace.
func (p *Place) ShowWorkspace(ref string) { p.setHidden(ref, false) }

func (p *Place) setHidden(ref string, hidden bool) {
	p.changeWorkspace(ref, func(w *workspace) { w.hidden = hidden })
}

// SetOtherCaller sets whether the requests of the place come from another user of the host than at first. While they do, every call
// of the port fails with fleet.ErrOtherIdentity.
func (p *Place) SetOtherCaller(other bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.otherCaller = other
}

// ProtectBranches sets whether the repositories refuse to move their branches.
func (p *Place) ProtectBranches(protected bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.protected = protected
}

// MakeUnhealthy makes the workspace unhealthy. It then accepts no new runs, but an active run continues.
func (p *Place) MakeUnhealthy(ref, reason string) {
	p.changeWorkspace(ref, func(w *workspace) {
		w.State, w.Reason = fleet.StateUnhealthy, reason
		w.logf("unhealthy: %s", reason)
	})
}

// MakeHealthy sets the state of the workspace to running.
func (p *Place) MakeHealthy(ref string) {
	p.changeWorkspace(ref, func(w *workspace) {
		w.State, w.Reason = fleet.StateRunning, ""
		w.logf("healthy")
	})
}

// SetDetails sets the workspace's owner, role, specification and reason.
func (p *Place) SetDetails(ref, owner, role, spec, reason string) {
	p.changeWorkspace(ref, func(w *workspace) { w.Owner, w.Role, w.Spec, w.Reason = owner, role, spec, reason })
}

// NewVersion gives the project a new version, with these roles and parameters. The project's workspaces keep their version,
// and are outdated. NewVersion panics if there is no such project.
func (p *Place) NewVersion(project string, roles []fleet.Role, parameters []fleet.Parameter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.projects, func(proj Project) bool { return proj.Name == project })
	p.projects[i].Roles, p.projects[i].Parameters = roles, parameters
	for _, w := range p.workspaces {
		if w.Project == project {
			w.Host.Outdated = true
		}
	}
}

// SetHost sets the facts that the host reports about the workspace.
func (p *Place) SetHost(ref string, h fleet.HostFacts) {
	p.changeWorkspace(ref, func(w *workspace) { w.Host = h })
}

// GiveAway makes the workspace belong to another owner, until Start builds it again. to names the owner, as in "another Fleet".
func (p *Place) GiveAway(ref, to string) {
	p.changeWorkspace(ref, func(w *workspace) {
		w.Host.ForeignOwner, w.State, w.Reason = to, fleet.StateUnhealthy, "its workspace belongs to "+to
	})
}

// FailBuild makes the next build for the agent with the name fail with the reason. Provision and Start request builds. The
// workspace need not exist yet. Each further call makes one more build fail.
func (p *Place) FailBuild(name, reason string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := strings.ToLower(name)
	p.buildFailures[key] = append(p.buildFailures[key], reason)
}

// HoldBuilds keeps workspaces whose builds begin from now on in the state starting, until the returned gate is opened. No call
// waits at this gate, so its channel Arrived is never closed.
func (p *Place) HoldBuilds() *Gate {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.buildGate = newGate()
	return p.buildGate
}

// HoldRuns makes new runs wait before they read their prompt, until the returned gate is opened or the run is ended. So
// a test can keep a task with any prompt running.
func (p *Place) HoldRuns() *Gate {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.runGate = newGate()
	return p.runGate
}

// SetMetadata sets a metadata key of the workspace. An empty value removes the key.
func (p *Place) SetMetadata(ref, key, value string) {
	p.changeWorkspace(ref, func(w *workspace) {
		if w.Metadata == nil {
			w.Metadata = map[string]string{}
		}
		if w.Metadata[key] = value; value == "" {
			delete(w.Metadata, key)
		}
	})
}

// KeepOnDelete makes Delete keep the workspace and return the reason.
func (p *Place) KeepOnDelete(ref, reason string) {
	p.changeWorkspace(ref, func(w *workspace) { w.keepReason = reason })
}

// AppendLog adds lines to the workspace's log.
func (p *Place) AppendLog(ref string, lines ...string) {
	p.changeWorkspace(ref, func(w *workspace) { w.log = append(w.log, lines...) })
}

// SetProjects replaces the projects.
func (p *Place) SetProjects(projects ...Project) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.projects = sortProjects(projects)
}

// CrashRun ends the run as if the agent's process had crashed. It returns false if the run has ended or does not exist.
func (p *Place) CrashRun(taskID string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.runs[taskID]
	if r == nil || r.ended() {
		return false
	}
	p.endRun(r, fleet.Outcome{Status: fleet.TaskFailed, Reason: "the agent's process died", ReasonCode: fleet.CodeRunnerLost})
	return true
}

// Ended returns a channel that is closed when the run has ended. It returns nil if there is no such run.
func (p *Place) Ended(taskID string) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r := p.runs[taskID]; r != nil {
		return r.done
	}
	return nil
}

// RunCount returns how many runs of the task agents have started or claimed.
func (p *Place) RunCount(taskID string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.runCounts[taskID]
}

// DispatchCount returns how often Dispatch was called for the task, with or without success. It does not count calls that
// failed before they did anything.
func (p *Place) DispatchCount(taskID string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dispatchCounts[taskID]
}

// Messages returns the messages that were sent to the run, oldest first.
func (p *Place) Messages(taskID string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r := p.runs[taskID]; r != nil {
		return slices.Clone(r.messages)
	}
	return nil
}

// Destroy makes all active runs fail, and returns when the goroutines of runs and checks have ended. Call it at the end
// of a test.
func (p *Place) Destroy() {
	p.mu.Lock()
	for _, r := range p.runs {
		r.stopChecks()
		p.endRun(r, fleet.Outcome{Status: fleet.TaskFailed, Reason: "the world ended"})
	}
	p.mu.Unlock()
	p.goroutines.Wait()
}
