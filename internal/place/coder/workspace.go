package coder

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/coder/coder/v2/codersdk"
	"github.com/google/uuid"

	"fleet/internal/fleet"
)

// createSkew is how much older than an agent, by Coder's clock, a workspace may be to count as created for the agent. It
// allows for inexact clocks.
const createSkew = 30 * time.Second

// workspace is the workspace of an agent, with the account that may access it and the settings of its template.
type workspace struct {
	ws      codersdk.Workspace
	account *account
	Settings
}

// find returns the agent's workspace. It returns nil if Coder says that the workspace was deleted, or if the agent has none.
// The error has the cause errNotShown if Coder does not show the workspace, which does not mean that it was deleted.
func (p *Place) find(ctx context.Context, a fleet.Agent) (*workspace, error) {
	return p.findIn(ctx, a, nil)
}

// findIn is like find, for a caller that may already have the agent's project. proj is nil if the caller does not have it.
func (p *Place) findIn(ctx context.Context, a fleet.Agent, proj *templateProject) (*workspace, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	id, isKnown := p.index.workspace(a.UID)
	if a.WorkspaceID != "" {
		var err error
		if id, err = uuid.Parse(a.WorkspaceID); err != nil {
			return nil, nil // the workspace is in another kind of place
		}
		isKnown = true
	}
	if !isKnown {
		user, acc, err := p.ownerAccount(ctx, a)
		if err != nil {
			return nil, err
		}
		return p.findByName(ctx, a, proj, user, acc)
	}
	me, err := p.whoami(ctx)
	if err != nil {
		return nil, err
	}
	started := p.config.Now()
	ws, err := getWorkspace(ctx, p.self, id)
	if err != nil || ws == nil {
		p.recent.forget(id)
		return nil, err
	}
	p.recent.record(*ws, started)
	if p.config.Owner == OwnerSelf && ws.OwnerID != me.ID { // only an admin's token sees it
		return nil, newNotShownError("its workspace %s belongs to the Coder user %s", ws.Name, ws.OwnerName)
	}
	acc, err := p.accountOf(ws.OwnerID.String(), me)
	if err != nil {
		return nil, err
	}
	p.index.set(a.UID, id)
	return p.workspace(*ws, acc), nil
}

// findByName looks for a workspace that was created for the agent but not recorded, because a call was interrupted. It
// returns nil if there is none.
func (p *Place) findByName(ctx context.Context, a fleet.Agent, proj *templateProject, user string, acc *account) (*workspace, error) {
	if proj == nil {
		var err error
		proj, err = p.findProject(ctx, a.Project)
		if fleet.ReasonOf(err) == fleet.ReasonProjectNotFound {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
	}
	ws, err := p.getByName(ctx, user, acc, proj.prefix()+a.Name)
	if err != nil || ws == nil || !p.wasCreatedFor(a, proj, *ws) {
		return nil, err
	}
	p.index.set(a.UID, ws.ID)
	return p.workspace(*ws, acc), nil
}

// wasCreatedFor reports whether a workspace with the agent's name and owner was created for the agent. Such a workspace has
// the agent's project, is not older than the agent, and does not belong to another agent.
func (p *Place) wasCreatedFor(a fleet.Agent, proj *templateProject, ws codersdk.Workspace) bool {
	if other := p.index.agent(ws.ID); other != "" {
		return other == a.UID
	}
	return ws.TemplateID == proj.template.ID && !ws.CreatedAt.Before(a.CreatedAt.Add(p.throttle.clockSkew()-createSkew))
}

// getByName returns the user's workspace with the name, or nil if there is none.
func (p *Place) getByName(ctx context.Context, user string, acc *account, name string) (*codersdk.Workspace, error) {
	ws, err := callCoder(ctx, "looking for the workspace "+name, func(ctx context.Context) (codersdk.Workspace, error) {
		ws, err := acc.sdk.WorkspaceByOwnerAndName(ctx, user, name, codersdk.WorkspaceOptions{})
		if isNotFound(err) {
			err = nil
		}
		return ws, err
	})
	if err != nil || ws.ID == uuid.Nil {
		return nil, err
	}
	return &ws, nil
}

// getWorkspace returns the workspace. It returns nil if Coder says that the workspace was deleted. The error has the cause
// errNotShown if Coder does not find the workspace, because a user who may not see the workspace gets the same response.
func getWorkspace(ctx context.Context, acc *account, id uuid.UUID) (*codersdk.Workspace, error) {
	deleted := false
	ws, err := callCoder(ctx, "reading a workspace", func(ctx context.Context) (codersdk.Workspace, error) {
		ws, err := acc.sdk.Workspace(ctx, id)
		switch {
		case isDeletedError(err, id):
			deleted, err = true, nil
		case isNotFound(err):
			err = newNotShownError("Coder does not show its workspace %s to the user of Fleet's token, and does not say that it was deleted", id)
		}
		return ws, err
	})
	switch {
	case err != nil || deleted:
		return nil, err
	case ws.ID != id:
		return nil, unavailable("reading a workspace failed: the answer is not about the workspace %s", id)
	case ws.LatestBuild.Status == codersdk.WorkspaceStatusDeleted:
		return nil, nil
	}
	return &ws, nil
}

// isDeletedError reports whether err is Coder's response that the workspace with the id was deleted. This response names the
// workspace.
func isDeletedError(err error, id uuid.UUID) bool {
	var response *codersdk.Error
	return errors.As(err, &response) && response.StatusCode() == http.StatusGone && strings.Contains(response.Message, id.String())
}

// errNotShown is the cause of errors about a workspace that Coder does not show. It may exist.
var errNotShown = errors.New("the workspace is not shown")

// newNotShownError returns the error about a workspace that Coder does not show. Callers retry, because the workspace may be shown
// again.
func newNotShownError(format string, args ...any) error {
	return unavailable(format, args...).WithCause(errNotShown)
}

// workspace returns the workspace with the settings of its template and the account that may access it.
func (p *Place) workspace(ws codersdk.Workspace, acc *account) *workspace {
	name, _ := p.configuredName(ws.TemplateName)
	return &workspace{ws: ws, account: acc, Settings: p.projectSettings(name)}
}

// refresh reads the workspace again. It returns false if Coder says that the workspace was deleted.
func (w *workspace) refresh(ctx context.Context) (bool, error) {
	ws, err := getWorkspace(ctx, w.account, w.ws.ID)
	if err != nil || ws == nil {
		return false, err
	}
	w.ws = *ws
	return true, nil
}

// appAgent returns the workspace's agent that has an app with one of the slugs, and the app. Earlier slugs are preferred. If no
// agent has such an app, it returns the first agent and no app.
func (w *workspace) appAgent() (*codersdk.WorkspaceAgent, *codersdk.WorkspaceApp) {
	var first *codersdk.WorkspaceAgent
	for _, slug := range w.slugs() {
		for i := range w.ws.LatestBuild.Resources {
			r := &w.ws.LatestBuild.Resources[i]
			for j := range r.Agents {
				a := &r.Agents[j]
				if first == nil {
					first = a
				}
				for k := range a.Apps {
					if a.Apps[k].Slug == slug {
						return a, &a.Apps[k]
					}
				}
			}
		}
	}
	return first, nil
}

// connectTimeout is how long a workspace's agent may take to connect, and its app to answer, before the workspace
// counts as unhealthy. A template can allow the agent more time.
const connectTimeout = 2 * time.Minute

// state derives the state of the workspace from its build, its agent and the app. It also returns the reason for the state, which
// may be empty.
func (p *Place) state(w *workspace) (fleet.State, string) {
	build := w.ws.LatestBuild
	switch build.Status {
	case codersdk.WorkspaceStatusPending:
		if q := build.Job.QueuePosition; q > 0 {
			return fleet.StatePending, fmt.Sprintf("its build waits behind %d other builds", q)
		}
		return fleet.StatePending, "its build waits for a provisioner"
	case codersdk.WorkspaceStatusStarting:
		return fleet.StateStarting, "its workspace is being built"
	case codersdk.WorkspaceStatusStopping:
		return fleet.StateStopping, ""
	case codersdk.WorkspaceStatusStopped:
		return fleet.StateStopped, ""
	case codersdk.WorkspaceStatusFailed:
		return fleet.StateFailed, fmt.Sprintf("the build to %s it failed: %s", build.Transition, jobError(build.Job))
	case codersdk.WorkspaceStatusCanceling:
		return fleet.StateCanceling, "its build is being canceled"
	case codersdk.WorkspaceStatusCanceled:
		return fleet.StateCanceled, fmt.Sprintf("the build to %s it was canceled", build.Transition)
	case codersdk.WorkspaceStatusDeleting:
		return fleet.StateDeleting, ""
	case codersdk.WorkspaceStatusDeleted:
		return fleet.StateDeleted, ""
	case codersdk.WorkspaceStatusRunning:
		return p.agentState(w)
	}
	return fleet.StateUnhealthy, fmt.Sprintf("Coder reports the status %q, which this version of Fleet does not know", shortLine(string(build.Status)))
}

// hasStopped reports whether the workspace was stopped or deleted, is about to be, or has failed, so that its runs have ended. why
// says so for people.
func (p *Place) hasStopped(w *workspace) (why string, ended bool) {
	switch state, reason := p.state(w); state {
	case fleet.StateRunning, fleet.StateStarting, fleet.StateUnhealthy:
		return "", false
	case fleet.StatePending:
		if w.ws.LatestBuild.Transition == "start" {
			return "", false
		}
		return "its workspace was stopped", true
	default:
		why = "its workspace was stopped"
		if state != fleet.StateStopped && state != fleet.StateStopping {
			why = "its workspace is " + string(state)
		}
		if reason != "" {
			why += ": " + reason
		}
		return why, true
	}
}

// offlineError returns the error that says why the agent cannot be reached, or nil if it can be reached.
func (p *Place) offlineError(a fleet.Agent, w *workspace) error {
	state, reason := p.state(w)
	return fleet.Workspace{State: state, Reason: reason}.CheckRunning(a.Name)
}

// programName returns the name of the program behind the app, for messages.
func programName(app *codersdk.WorkspaceApp) string {
	if app.Slug == runnerSlug {
		return runnerSlug
	}
	return "AgentAPI"
}

func jobError(j codersdk.ProvisionerJob) string {
	if e := shortLine(j.Error); e != "" {
		return e
	}
	return "Coder gives no reason; the log of the build may have one"
}

// agentState is state for a workspace whose build has succeeded.
func (p *Place) agentState(w *workspace) (fleet.State, string) {
	agent, app := w.appAgent()
	if agent == nil {
		return fleet.StateUnhealthy, "its workspace has no agent: the template needs a coder_agent"
	}
	since := p.config.Now().Add(p.throttle.clockSkew())
	if done := w.ws.LatestBuild.Job.CompletedAt; done != nil {
		since = *done
	}
	age := p.config.Now().Add(p.throttle.clockSkew()).Sub(since)
	switch agent.Status {
	case codersdk.WorkspaceAgentConnected:
	case codersdk.WorkspaceAgentConnecting:
		if age > max(connectTimeout, time.Duration(agent.ConnectionTimeoutSeconds)*time.Second) {
			return fleet.StateUnhealthy, "its workspace's agent has not connected to Coder: read the log of the agent for the reason"
		}
		return fleet.StateStarting, "its workspace's agent is connecting to Coder"
	case codersdk.WorkspaceAgentTimeout:
		return fleet.StateUnhealthy, "its workspace's agent did not connect to Coder in time"
	default:
		return fleet.StateUnhealthy, "its workspace's agent has lost its connection to Coder"
	}
	switch agent.LifecycleState {
	case codersdk.WorkspaceAgentLifecycleCreated, codersdk.WorkspaceAgentLifecycleStarting:
		return fleet.StateStarting, "its startup script runs"
	case codersdk.WorkspaceAgentLifecycleStartTimeout, codersdk.WorkspaceAgentLifecycleReady, codersdk.WorkspaceAgentLifecycleStartError:
	default:
		return fleet.StateUnhealthy, fmt.Sprintf("its workspace's agent is %s", strings.ReplaceAll(string(agent.LifecycleState), "_", " "))
	}
	if app == nil {
		return fleet.StateUnhealthy, fmt.Sprintf("its workspace has no app %s: the template needs a coder_app for fleet-runner or AgentAPI", strings.Join(w.slugs(), " or "))
	}
	scriptFailure := ""
	if agent.LifecycleState == codersdk.WorkspaceAgentLifecycleStartError {
		scriptFailure = ", and its startup script failed"
	}
	switch app.Health {
	case codersdk.WorkspaceAppHealthInitializing:
		if scriptFailure == "" && age <= connectTimeout {
			return fleet.StateStarting, programName(app) + " is starting"
		}
		return fleet.StateUnhealthy, programName(app) + " does not answer" + scriptFailure
	case codersdk.WorkspaceAppHealthUnhealthy:
		return fleet.StateUnhealthy, programName(app) + " does not answer" + scriptFailure
	}
	return fleet.StateRunning, ""
}
