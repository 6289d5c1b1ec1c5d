package coder

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/coder/coder/v2/codersdk"
	"github.com/google/uuid"

	"fleet/internal/fleet"
	"fleet/internal/runner/agentapi"
)

// factCache caches facts about workspaces that Coder's list does not contain.
type factCache struct {
	mu     sync.Mutex
	byID   map[uuid.UUID]*workspaceFacts
	values map[uuid.UUID][]codersdk.WorkspaceBuildParameter // parameters by build; the parameters of a build never change
	unread map[uuid.UUID]readFailure                        // builds whose parameters could not be read
}

// workspaceFacts holds the facts about the latest build of one workspace.
type workspaceFacts struct {
	build uuid.UUID
	ready bool // the agent was ready before, so a busy AgentAPI means that the agent is working

	probed time.Time // when the app was last probed
	state  fleet.State
	reason string

	read     time.Time // when the metadata were last read
	metadata map[string]string
	ports    []uint16 // on which programs listen
}

func (v *factCache) init() {
	v.byID = map[uuid.UUID]*workspaceFacts{}
	v.values = map[uuid.UUID][]codersdk.WorkspaceBuildParameter{}
	v.unread = map[uuid.UUID]readFailure{}
}

// of returns a copy of the cached facts about the workspace's latest build. If none are cached, only the build is set.
func (v *factCache) of(ws codersdk.Workspace) workspaceFacts {
	v.mu.Lock()
	defer v.mu.Unlock()
	if known := v.byID[ws.ID]; known != nil && known.build == ws.LatestBuild.ID {
		return *known
	}
	return workspaceFacts{build: ws.LatestBuild.ID}
}

// change calls the function to modify the cached facts about the workspace's latest build.
func (v *factCache) change(ws codersdk.Workspace, change func(*workspaceFacts)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	known := v.byID[ws.ID]
	if known == nil || known.build != ws.LatestBuild.ID {
		known = &workspaceFacts{build: ws.LatestBuild.ID}
		v.byID[ws.ID] = known
	}
	change(known)
}

func (v *factCache) forget(id uuid.UUID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.byID, id)
}

// keep removes the facts about workspaces and builds that are not in the sets.
func (v *factCache) keep(workspaces, builds map[uuid.UUID]bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for id := range v.byID {
		if !workspaces[id] {
			delete(v.byID, id)
		}
	}
	for id := range v.unread {
		if !builds[id] {
			delete(v.unread, id)
		}
	}
	if len(v.values) > 2*len(builds)+64 {
		for id := range v.values {
			if !builds[id] {
				delete(v.values, id)
			}
		}
	}
}

// Inspect implements fleet.Place.
func (p *Place) Inspect(ctx context.Context, a fleet.Agent) (fleet.Workspace, error) {
	if id, known := p.known.workspace(a.UID); known && a.WorkspaceID == id.String() {
		ws, err := p.fromList(ctx, id)
		if err != nil {
			return fleet.Workspace{}, err
		}
		if ws != nil {
			return p.inspect(ctx, a, p.workspace(*ws, p.self))
		}
	}
	at, err := p.find(ctx, a)
	if errors.Is(err, errNotShown) {
		return fleet.Workspace{ID: a.WorkspaceID, State: fleet.StateUnhealthy, Missing: true, Reason: fleet.PublicMessage(err)}, nil
	}
	if err != nil {
		return fleet.Workspace{}, err
	}
	if at == nil {
		return fleet.Workspace{ID: a.WorkspaceID, State: fleet.StateDeleted, Reason: "its workspace was deleted in Coder"}, nil
	}
	return p.inspect(ctx, a, at)
}

// inspect returns the state of the agent's workspace. If the workspace runs, inspect also probes its app and reads its
// metadata.
func (p *Place) inspect(ctx context.Context, a fleet.Agent, at *workspace) (fleet.Workspace, error) {
	p.readDeployment(ctx)
	owner, err := p.principalOf(ctx, at.ws)
	if err != nil {
		return fleet.Workspace{}, err
	}
	w := fleet.Workspace{
		ID: at.ws.ID.String(), AgentUID: a.UID, Name: a.Name, Owner: owner, Project: a.Project, Role: a.Role, Spec: a.Spec,
		Location: p.location(at.ws), CreatedAt: at.ws.CreatedAt, Host: p.hostFacts(at, a.Project),
	}
	w.State, w.Reason = p.state(at)
	w.FleetUnknown = w.State.Moving() || p.readFleet(ctx, at, &w) != nil // it is read again later
	if w.State != fleet.StateRunning {
		return w, ctx.Err()
	}
	if w.State, w.Reason, err = p.probe(ctx, at); err != nil {
		return w, err
	}
	if w.State == fleet.StateRunning {
		p.readMetadata(ctx, at)
		p.readPorts(ctx, at)
		w.Metadata = p.metadata(ctx, at)
		h := p.hostFacts(at, a.Project)
		h.OtherFleet, w.Host = w.Host.OtherFleet, h
	}
	return w, ctx.Err()
}

// probe returns the state of a running workspace, and the reason if the state is not running. Without a fleet-runner,
// it asks AgentAPI.
func (p *Place) probe(ctx context.Context, at *workspace) (fleet.State, string, error) {
	if at.hasRunner() { // Coder checks the health of fleet-runner itself
		p.workspaceFacts.change(at.ws, func(v *workspaceFacts) {
			v.probed, v.state, v.reason, v.ready = p.config.Now(), fleet.StateRunning, "", true
		})
		return fleet.StateRunning, "", ctx.Err()
	}
	facts := p.facts(at)
	if facts.URL == nil {
		return fleet.StateUnhealthy, "its workspace has no AgentAPI", nil
	}
	state, reason, err := p.askReady(ctx, at, facts)
	if err != nil {
		return "", "", err
	}
	p.workspaceFacts.change(at.ws, func(v *workspaceFacts) {
		v.probed, v.state, v.reason = p.config.Now(), state, reason
		v.ready = v.ready || state == fleet.StateRunning
	})
	return state, reason, nil
}

// askReady asks AgentAPI whether the agent is ready, and returns the state that follows and its reason.
func (p *Place) askReady(ctx context.Context, at *workspace, facts agentapi.Facts) (fleet.State, string, error) {
	before := p.workspaceFacts.of(at.ws).ready
	ready, err := p.screens.Ready(ctx, facts, before, func() agentapi.Prompt {
		_, spec, _ := p.roleAndSpec(ctx, at)
		return agentapi.Prompt{Text: spec, Task: p.firstTask(ctx, at)}
	})
	switch {
	case ctx.Err() != nil:
		return "", "", ctx.Err()
	case ready:
		return fleet.StateRunning, "", nil
	case err == nil:
		return fleet.StateStarting, "the agent is starting, or works on the prompt with which it was started", nil
	case errors.Is(err, agentapi.ErrNoAnswer):
		if done := at.ws.LatestBuild.Job.CompletedAt; !before && done != nil && facts.Ahead+p.config.Now().Sub(*done) < neverConnected {
			return fleet.StateStarting, "AgentAPI is starting", nil
		}
		return fleet.StateUnhealthy, "AgentAPI does not answer", nil
	}
	if refusal, ok := errors.AsType[*agentapi.RefusalError](err); ok {
		return fleet.StateUnhealthy, refusal.Error(), nil
	}
	return "", "", translate("asking AgentAPI of "+at.ws.Name, err)
}

// firstTask reports whether the agent's first task is the work that it starts by itself. After later starts of the
// workspace, such work is not a task: the agent only prepares itself.
func (p *Place) firstTask(ctx context.Context, at *workspace) bool {
	if at.ws.LatestBuild.BuildNumber != 1 {
		return false
	}
	v, err := p.version(ctx, at.ws.LatestBuild.TemplateVersionID)
	return err == nil && at.begins(v)
}

// values returns the parameters of the build, from the cache if possible.
func (p *Place) values(ctx context.Context, acc *account, build uuid.UUID) ([]codersdk.WorkspaceBuildParameter, error) {
	p.workspaceFacts.mu.Lock()
	values, known := p.workspaceFacts.values[build]
	p.workspaceFacts.mu.Unlock()
	if known {
		return values, ctx.Err()
	}
	values, err := ask(ctx, "reading a workspace's parameters", func(ctx context.Context) ([]codersdk.WorkspaceBuildParameter, error) {
		return acc.sdk.WorkspaceBuildParameters(ctx, build)
	})
	if err != nil {
		return nil, err
	}
	p.workspaceFacts.mu.Lock()
	defer p.workspaceFacts.mu.Unlock()
	p.workspaceFacts.values[build] = values
	delete(p.workspaceFacts.unread, build)
	return values, nil
}
