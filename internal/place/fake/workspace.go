package fake

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"fleet/internal/fleet"
)

// workspace is a workspace of the world. The world's mutex guards it.
type workspace struct {
	fleet.Workspace
	run        *run // the last run
	checkedRun *run // the last run for which a check was started
	hidden     bool // the host does not show it
	log        []string
	keepReason string // set by KeepOnDelete; if it is not empty, Delete keeps the workspace and returns keepReason
	keptAt     time.Time

	files      map[string]bool // files that runs have changed
	addedLines []string        // the lines that runs have added

	roles          []fleet.Role // roles of the version with which the workspace was created or updated; nil: the newest version
	startsItself   bool         // whether the agent starts to work on its spec by itself
	selfStartedRun *run         // the run that the agent has started by itself

	// These fields are used while State is starting: the conditions that the build waits for, and the reason why it
	// will fail.
	pollsLeft     int
	gate          *Gate
	failureReason string
}

// busy reports whether a run or a check is active. The world's mutex must be held.
func (w *workspace) busy() bool {
	return w.run != nil && !w.run.ended() || w.checkedRun != nil && w.checkedRun.hasActiveCheck()
}

func (w *workspace) logf(format string, args ...any) {
	w.log = append(w.log, fmt.Sprintf(format, args...))
}

// view returns a copy for callers.
func (w *workspace) view() fleet.Workspace {
	v := w.Workspace
	v.Metadata = maps.Clone(v.Metadata)
	return v
}

// build starts a build of the workspace. The world's mutex must be held.
func (p *Place) build(w *workspace) {
	w.State, w.Reason, w.Host.ForeignOwner = fleet.StateStarting, "", ""
	w.pollsLeft, w.gate = p.config.BuildPolls, p.buildGate
	key := strings.ToLower(w.Name)
	if reasons := p.buildFailures[key]; len(reasons) > 0 {
		w.failureReason, p.buildFailures[key] = reasons[0], reasons[1:]
	}
	w.logf("build begins")
	p.finishBuild(w)
}

// finishBuild ends the build of the workspace if the build need not wait any longer. The world's mutex must be held.
func (p *Place) finishBuild(w *workspace) {
	switch {
	case w.State != fleet.StateStarting, w.pollsLeft > 0, w.gate != nil && !w.gate.isOpen():
		return
	case w.failureReason != "":
		w.State, w.Reason, w.failureReason = fleet.StateFailed, w.failureReason, ""
		w.logf("build failed: %s", w.Reason)
		return
	}
	w.State = fleet.StateRunning
	w.logf("workspace runs")
	if w.startsItself && w.selfStartedRun == nil {
		w.selfStartedRun = p.startRun(w, fleet.Run{TaskID: w.ID, Prompt: w.Spec})
	}
}

// countPoll counts a poll of the workspace for Config.BuildPolls. The world's mutex must be held.
func (p *Place) countPoll(w *workspace) {
	p.finishBuild(w)
	if w.State == fleet.StateStarting && w.pollsLeft > 0 {
		w.pollsLeft--
	}
}

// halt stops the workspace, and ends the run in it with the status. The world's mutex must be held.
func (p *Place) halt(w *workspace, status fleet.TaskStatus) {
	w.State, w.Reason, w.failureReason = fleet.StateStopped, "", ""
	w.logf("workspace stopped")
	if w.checkedRun != nil {
		w.checkedRun.stopChecks()
	}
	if w.run != nil {
		p.endRun(w.run, fleet.Outcome{Status: status, Reason: "its workspace was stopped while it worked", ReasonCode: fleet.CodePlaceLost})
	}
}

// destroy deletes the workspace, and ends the run in it with the status. The world's mutex must be held.
func (p *Place) destroy(w *workspace, status fleet.TaskStatus) {
	w.State = fleet.StateDeleted
	p.workOfDeleted[w.AgentUID] = strings.Join(w.addedLines, "")
	if w.checkedRun != nil {
		w.checkedRun.stopChecks()
	}
	if w.run != nil {
		p.endRun(w.run, fleet.Outcome{Status: status, Reason: "its workspace was deleted while it worked", ReasonCode: fleet.CodePlaceLost})
	}
	p.workspaces = slices.DeleteFunc(p.workspaces, func(x *workspace) bool { return x == w })
	delete(p.byID, w.ID)
	if w.AgentUID != "" {
		delete(p.byUID, w.AgentUID)
	}
}

// workspaceOf returns the agent's workspace, or nil if the agent has none. The world's mutex must be held.
func (p *Place) workspaceOf(a fleet.Agent) *workspace {
	if w := p.byUID[a.UID]; w != nil && a.UID != "" {
		return w
	}
	if w := p.byID[a.WorkspaceID]; w != nil && w.AgentUID == "" {
		return w // the workspace existed before its agent
	}
	return nil
}

// add adds a workspace to the world. It sets the id, the location and the time of creation if they are missing. The
// world's mutex must be held.
func (p *Place) add(w *workspace) {
	p.workspacesCreated++
	w.ID = cmp.Or(w.ID, fmt.Sprintf("workspace-%d", p.workspacesCreated))
	w.Location = cmp.Or(w.Location, "fake:"+w.Name)
	if w.CreatedAt.IsZero() {
		w.CreatedAt = p.config.Now()
	}
	p.workspaces = append(p.workspaces, w)
	p.byID[w.ID] = w
	if w.AgentUID != "" {
		p.byUID[w.AgentUID] = w
	}
}

// mustFind returns the workspace that has the id ref, or whose agent has the name or uid ref. It panics if there is no such
// workspace, because then the test is wrong. The world's mutex must be held.
func (p *Place) mustFind(ref string) *workspace {
	w := p.lookup(ref)
	if w == nil {
		panic(fmt.Sprintf("fake: the world has no workspace %q", ref))
	}
	return w
}

// lookup is mustFind, but returns nil if there is no such workspace.
func (p *Place) lookup(ref string) *workspace {
	for _, w := range p.workspaces {
		if w.ID == ref || w.AgentUID == ref && ref != "" || strings.EqualFold(w.Name, ref) {
			return w
		}
	}
	return nil
}
