package fake

import (
	"slices"
	"strings"

	"fleet/internal/fleet"
)

// What a test does and sees behind Fleet's back. A ref is an agent's name (in any case) or uid, or a workspace's id; the
// methods panic when the world has no such workspace.

// Workspace returns the workspace as it is, and whether there is one. It does not count as a look at a build.
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

// Workspaces returns all workspaces as they are, oldest first. It does not count as a look at a build.
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

// AddWorkspace makes a workspace that Fleet did not provision. Without a state it runs; without an id it gets one.
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

// StopWorkspace stops the workspace as somebody else would; its run fails.
func (b *Place) StopWorkspace(ref string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.halt(b.find(ref), fleet.TaskFailed)
}

// StartWorkspace starts the workspace as somebody else would.
func (b *Place) StartWorkspace(ref string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.build(b.find(ref))
}

// DeleteWorkspace destroys the workspace as somebody else would; its run fails.
func (b *Place) DeleteWorkspace(ref string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.destroy(b.find(ref), fleet.TaskFailed)
}

// MakeUnhealthy makes the workspace unhealthy for the reason. It takes no runs then; one that is under way goes on.
func (b *Place) MakeUnhealthy(ref, reason string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := b.find(ref)
	w.State, w.Reason = fleet.StateUnhealthy, reason
	w.note("unhealthy: %s", reason)
}

// MakeHealthy makes the workspace run as it should.
func (b *Place) MakeHealthy(ref string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := b.find(ref)
	w.State, w.Reason = fleet.StateRunning, ""
	w.note("healthy")
}

// Describe makes the workspace tell another owner, role, specification and reason.
func (b *Place) Describe(ref, owner, role, spec, reason string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := b.find(ref)
	w.Owner, w.Role, w.Spec, w.Reason = owner, role, spec, reason
}

// FailBuild makes the next build of the agent of this name, by Provision or Start, end in the state failed with the
// reason. The workspace need not exist yet. Called again, it is the build after that which fails too.
func (b *Place) FailBuild(name, reason string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := strings.ToLower(name)
	b.failing[key] = append(b.failing[key], reason)
}

// HoldBuilds makes workspaces that are built from now on stay in the state starting until the gate is opened.
// Nothing waits at this gate, so its Arrived is never closed.
func (b *Place) HoldBuilds() *Gate {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.builds = newGate()
	return b.builds
}

// HoldRuns makes runs that begin from now on wait at the gate before they read their prompt, until it is opened or they
// are ended: any prompt can so be that of a task that runs.
func (b *Place) HoldRuns() *Gate {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.beginning = newGate()
	return b.beginning
}

// SetMetadata sets a metadata key of the workspace; an empty value removes it.
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

// SetKept makes Delete say that it kept this of the workspace.
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

// CrashRun ends the run as when the agent's process dies. It returns false when the run has ended or never was.
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

// Ended is closed when the run has ended; nil when it never was.
func (b *Place) Ended(taskID string) <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r := b.runs[taskID]; r != nil {
		return r.done
	}
	return nil
}

// Deliveries returns how often an agent was given the run: the prompt was read, and work began.
func (b *Place) Deliveries(taskID string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.deliveries[taskID]
}

// Dispatches returns how often Dispatch was asked to give the run and got as far as the agent's host, given or not.
func (b *Place) Dispatches(taskID string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.dispatches[taskID]
}

// Messages returns what was sent to the run, oldest first.
func (b *Place) Messages(taskID string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r := b.runs[taskID]; r != nil {
		return slices.Clone(r.messages)
	}
	return nil
}

// Destroy ends the world: every run fails, and Destroy returns when the last of their goroutines has ended. It is for
// the end of a test.
func (b *Place) Destroy() {
	b.mu.Lock()
	for _, r := range b.runs {
		r.stopChecks()
		b.end(r, fleet.Outcome{Status: fleet.TaskFailed, Reason: "the world ended"})
	}
	b.mu.Unlock()
	b.working.Wait()
}
