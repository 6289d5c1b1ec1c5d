package fake

import (
	"maps"
	"slices"
	"strings"

	"fleet/internal/fleet"
)

// The following methods read and change the world without Fleet. A ref is the name (in upper or lower case) or the uid
// of an agent, or the id of a workspace. Methods that change a workspace panic if there is no such workspace.

// Workspace returns the workspace and whether it exists. It does not count for Config.BuildLooks.
func (b *Place) Workspace(ref string) (fleet.Workspace, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := b.lookup(ref)
	if w == nil {
		return fleet.Workspace{}, false
	}
	b.settle(w)
	return w.view(), true
}

// Workspaces returns all workspaces, oldest first. It does not count for Config.BuildLooks.
func (b *Place) Workspaces() []fleet.Workspace {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []fleet.Workspace
	for _, w := range b.workspaces {
		b.settle(w)
		all = append(all, w.view())
	}
	return all
}

// AddWorkspace adds a workspace that Fleet did not provision. The default state is running, and the default id is a new
// id.
func (b *Place) AddWorkspace(w fleet.Workspace) fleet.Workspace {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := &workspace{Workspace: w}
	if n.State == "" {
		n.State = fleet.StateRunning
	}
	b.add(n)
	return n.view()
}

// StopWorkspace stops the workspace. The run in the workspace fails.
func (b *Place) StopWorkspace(ref string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.halt(b.find(ref), fleet.TaskFailed)
}

// StartWorkspace starts the workspace.
func (b *Place) StartWorkspace(ref string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.build(b.find(ref))
}

// DeleteWorkspace deletes the workspace. The run in the workspace fails.
func (b *Place) DeleteWorkspace(ref string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.destroy(b.find(ref), fleet.TaskFailed)
}

// HideWorkspace makes the host stop showing the workspace, until ShowWorkspace. The run in it continues.
func (b *Place) HideWorkspace(ref string) { b.hide(ref, true) }

// ShowWorkspace undoes HideWorkspace.
func (b *Place) ShowWorkspace(ref string) { b.hide(ref, false) }

func (b *Place) hide(ref string, hidden bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.find(ref).hidden = hidden
}

// ChangeCaller makes the host take the place for another caller, so that every call of the port fails. With other unset,
// it takes the place for the first caller again.
func (b *Place) ChangeCaller(other bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.otherCaller = other
}

// MakeUnhealthy makes the workspace unhealthy. The workspace then accepts no new runs, and an active run continues.
func (b *Place) MakeUnhealthy(ref, reason string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := b.find(ref)
	w.State, w.Reason = fleet.StateUnhealthy, reason
	w.note("unhealthy: %s", reason)
}

// MakeHealthy makes the workspace healthy.
func (b *Place) MakeHealthy(ref string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := b.find(ref)
	w.State, w.Reason = fleet.StateRunning, ""
	w.note("healthy")
}

// Describe sets the workspace's owner, role, specification and reason.
func (b *Place) Describe(ref, owner, role, spec, reason string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := b.find(ref)
	w.Owner, w.Role, w.Spec, w.Reason = owner, role, spec, reason
}

// NewVersion gives the project a new version, with these roles and parameters. The project's workspaces keep the version that
// they have, and are outdated. It panics if there is no such project.
func (b *Place) NewVersion(project string, roles []fleet.Role, parameters []fleet.Parameter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.IndexFunc(b.projects, func(p Project) bool { return p.Name == project })
	b.projects[i].Roles, b.projects[i].Parameters = roles, parameters
	for _, w := range b.workspaces {
		if w.Project == project {
			w.Host.Outdated = true
		}
	}
}

// SetHost sets what the host reports about the workspace.
func (b *Place) SetHost(ref string, h fleet.HostFacts) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.find(ref).Host = h
}

// GiveAway makes the workspace another Fleet's, until Start builds it again.
func (b *Place) GiveAway(ref, to string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := b.find(ref)
	w.Host.OtherFleet, w.State, w.Reason = to, fleet.StateUnhealthy, "its workspace belongs to "+to
}

// Parameters returns the values of the workspace's parameters.
func (b *Place) Parameters(ref string) map[string]string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.find(ref).parameters)
}

// FailBuild makes the next build for the agent with the name, by Provision or Start, fail with the reason. The
// workspace need not exist yet. Each further call makes one more build fail.
func (b *Place) FailBuild(name, reason string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := strings.ToLower(name)
	b.failing[key] = append(b.failing[key], reason)
}

// HoldBuilds keeps workspaces that are built from now on in the state starting until the returned gate is opened. No
// call waits at this gate, so its Arrived is never closed.
func (b *Place) HoldBuilds() *Gate {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.builds = newGate()
	return b.builds
}

// HoldRuns makes new runs wait before they read their prompt, until the returned gate is opened or the run is ended. So
// a test can keep a task with any prompt running.
func (b *Place) HoldRuns() *Gate {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.beginning = newGate()
	return b.beginning
}

// SetMetadata sets a metadata key of the workspace. An empty value removes the key.
func (b *Place) SetMetadata(ref, key, value string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := b.find(ref)
	if value == "" {
		delete(w.Metadata, key)
		return
	}
	if w.Metadata == nil {
		w.Metadata = map[string]string{}
	}
	w.Metadata[key] = value
}

// SetKept makes Delete keep the workspace, and return the text.
func (b *Place) SetKept(ref, kept string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.find(ref).kept = kept
}

// AppendLog adds lines to the workspace's log.
func (b *Place) AppendLog(ref string, lines ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := b.find(ref)
	w.log = append(w.log, lines...)
}

// SetProjects replaces the projects.
func (b *Place) SetProjects(projects ...Project) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.projects = sorted(projects)
}

// CrashRun ends the run as if the agent's process had crashed. It returns false if the run has ended or does not exist.
func (b *Place) CrashRun(taskID string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.runs[taskID]
	if r == nil || r.ended() {
		return false
	}
	b.end(r, fleet.Outcome{Status: fleet.TaskFailed, Reason: "the agent's process died"})
	return true
}

// Ended returns a channel that is closed when the run has ended. It returns nil if there is no such run.
func (b *Place) Ended(taskID string) <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r := b.runs[taskID]; r != nil {
		return r.done
	}
	return nil
}

// Deliveries returns how often an agent has started or claimed a run of the task.
func (b *Place) Deliveries(taskID string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.deliveries[taskID]
}

// Dispatches returns how often Dispatch was called for the task, with or without success. It does not count calls that
// failed before they did anything.
func (b *Place) Dispatches(taskID string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.dispatches[taskID]
}

// Messages returns the messages that were sent to the run, oldest first.
func (b *Place) Messages(taskID string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r := b.runs[taskID]; r != nil {
		return slices.Clone(r.messages)
	}
	return nil
}

// Destroy makes all active runs fail, and returns when the goroutines of runs and checks have ended. Call it at the end
// of a test.
func (b *Place) Destroy() {
	b.mu.Lock()
	for _, r := range b.runs {
		r.stopChecks()
		b.end(r, fleet.Outcome{Status: fleet.TaskFailed, Reason: "the world ended"})
	}
	b.mu.Unlock()
	b.working.Wait()
}
