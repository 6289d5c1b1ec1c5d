package coder

import (
	"context"
	"errors"
	"time"

	"github.com/coder/coder/v2/codersdk"

	"fleet/internal/fleet"
	"fleet/internal/runner/agentapi"
)

// Inspect implements fleet.Place.
func (p *Place) Inspect(ctx context.Context, a fleet.Agent) (fleet.Workspace, error) {
	if id, known := p.index.workspace(a.UID); known && a.WorkspaceID == id.String() {
		ws, err := p.findInList(ctx, id)
		if err != nil {
			return fleet.Workspace{}, err
		}
		if ws != nil {
			return p.inspect(ctx, a, p.workspace(*ws, p.self))
		}
	}
	w, err := p.find(ctx, a)
	if errors.Is(err, errNotShown) {
		return fleet.Workspace{ID: a.WorkspaceID, State: fleet.StateUnhealthy, Missing: true, Reason: fleet.PublicMessage(err)}, nil
	}
	if err != nil {
		return fleet.Workspace{}, err
	}
	if w == nil {
		return fleet.Workspace{ID: a.WorkspaceID, State: fleet.StateDeleted, Reason: "its workspace was deleted in Coder"}, nil
	}
	return p.inspect(ctx, a, w)
}

// inspect returns the state of the agent's workspace. If the workspace is running, inspect probes its app, and if the app is ready,
// it reads the metadata and the ports.
func (p *Place) inspect(ctx context.Context, a fleet.Agent, w *workspace) (fleet.Workspace, error) {
	p.readDeployment(ctx)
	owner, err := p.principalOf(ctx, w.ws)
	if err != nil {
		return fleet.Workspace{}, err
	}
	out := fleet.Workspace{
		ID: w.ws.ID.String(), AgentUID: a.UID, Name: a.Name, Owner: owner, Project: a.Project, Role: a.Role, Spec: a.Spec,
		Location: p.location(w.ws), CreatedAt: w.ws.CreatedAt, Host: p.hostFacts(w, a.Project),
	}
	out.State, out.Reason = p.state(w)
	out.ForeignOwnerUnknown = out.State.Moving() || p.readForeignOwner(ctx, w, &out) != nil // a later Inspect or List reads the parameters again
	if out.State != fleet.StateRunning {
		return out, ctx.Err()
	}
	if out.State, out.Reason, err = p.probe(ctx, w); err != nil {
		return out, err
	}
	if out.State == fleet.StateRunning {
		p.readMetadata(ctx, w)
		p.readPorts(ctx, w)
		out.Metadata = p.metadata(ctx, w)
		h := p.hostFacts(w, a.Project) // now with the links to the ports
		h.ForeignOwner, out.Host = out.Host.ForeignOwner, h
	}
	return out, ctx.Err()
}

// hostFacts returns the facts about the workspace in addition to its state. project is the name of the workspace's project.
func (p *Place) hostFacts(w *workspace, project string) fleet.HostFacts {
	ws := w.ws
	h := fleet.HostFacts{Credential: p.Credential(project), Outdated: ws.Outdated, Links: p.links(w)}
	if deadline := ws.LatestBuild.Deadline; deadline.Valid && ws.LatestBuild.Status == codersdk.WorkspaceStatusRunning {
		// Coder moves the deadline whenever the workspace is used, so its seconds mean nothing.
		h.StopsAt = deadline.Time.UTC().Truncate(time.Minute)
	}
	if ws.DormantAt != nil {
		h.DormantAt = ws.DormantAt.UTC().Truncate(time.Second)
	}
	if ws.DeletingAt != nil {
		h.DeletionAt = ws.DeletingAt.UTC().Truncate(time.Second)
	}
	return h
}

// probe returns the state of a running workspace, and the reason if the state is not running. It also records them in the cache of
// facts. Without a fleet-runner, it asks AgentAPI.
func (p *Place) probe(ctx context.Context, w *workspace) (fleet.State, string, error) {
	if w.hasRunner() { // Coder checks the health of fleet-runner itself
		p.factCache.update(w.ws, func(v *workspaceFacts) {
			v.probedAt, v.state, v.reason, v.wasReady = p.config.Now(), fleet.StateRunning, "", true
		})
		return fleet.StateRunning, "", ctx.Err()
	}
	facts := p.agentAPIFacts(w)
	if facts.URL == nil {
		return fleet.StateUnhealthy, "its workspace has no AgentAPI", nil
	}
	state, reason, err := p.probeAgentAPI(ctx, w, facts)
	if err != nil {
		return "", "", err
	}
	p.factCache.update(w.ws, func(v *workspaceFacts) {
		v.probedAt, v.state, v.reason = p.config.Now(), state, reason
		v.wasReady = v.wasReady || state == fleet.StateRunning
	})
	return state, reason, nil
}

// probeAgentAPI asks AgentAPI whether the agent is ready. It returns the state that follows, and the reason for it.
func (p *Place) probeAgentAPI(ctx context.Context, w *workspace, facts agentapi.Facts) (fleet.State, string, error) {
	wasReady := p.factCache.get(w.ws).wasReady
	ready, err := p.agentAPIRunners.Ready(ctx, facts, wasReady, func() agentapi.Prompt {
		_, spec, _ := p.roleAndSpec(ctx, w)
		return agentapi.Prompt{Text: spec, IsTask: p.isFirstTask(ctx, w)}
	})
	switch {
	case ctx.Err() != nil:
		return "", "", ctx.Err()
	case ready:
		return fleet.StateRunning, "", nil
	case err == nil:
		return fleet.StateStarting, "the agent is starting, or works on the prompt with which it was started", nil
	case errors.Is(err, agentapi.ErrNoAnswer):
		if done := w.ws.LatestBuild.Job.CompletedAt; !wasReady && done != nil && facts.ClockSkew+p.config.Now().Sub(*done) < connectTimeout {
			return fleet.StateStarting, "AgentAPI is starting", nil
		}
		return fleet.StateUnhealthy, "AgentAPI does not answer", nil
	}
	if refusal, ok := errors.AsType[*agentapi.RefusalError](err); ok {
		return fleet.StateUnhealthy, refusal.Error(), nil
	}
	return "", "", translate("asking AgentAPI of "+w.ws.Name, err)
}

// isFirstTask reports whether the work that the agent starts by itself is its first task. That is only so after the workspace was
// created. After later starts, the agent only prepares itself.
func (p *Place) isFirstTask(ctx context.Context, w *workspace) bool {
	if w.ws.LatestBuild.BuildNumber != 1 {
		return false
	}
	v, err := p.version(ctx, w.ws.LatestBuild.TemplateVersionID)
	return err == nil && w.startsItself(v)
}
