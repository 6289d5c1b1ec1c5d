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

// createSkew is how much older than an agent a workspace may be, by Coder's clock, to count as created for the agent.
// It allows for inexact clocks.
const createSkew = 30 * time.Second

// place is the workspace of an agent, with the account that may access it.
type place struct {
	ws      codersdk.Workspace
	account *account
	Settings
}

// find returns the agent's workspace. It returns nil if Coder says that the workspace was deleted, or if the agent has none.
// The error is errNotShown if Coder does not show the workspace, which does not mean that it was deleted.
func (b *Place) find(ctx context.Context, a fleet.Agent) (*place, error) {
	return b.findIn(ctx, a, nil)
}

// findIn does the same as find. p is the agent's project, or nil if the caller does not have it.
func (b *Place) findIn(ctx context.Context, a fleet.Agent, p *project) (*place, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	id, known := b.known.workspace(a.UID)
	if a.WorkspaceID != "" {
		var err error
		if id, err = uuid.Parse(a.WorkspaceID); err != nil {
			return nil, nil // the workspace is in another kind of place
		}
		known = true
	}
	if !known {
		user, acc, err := b.owner(ctx, a)
		if err != nil {
			return nil, err
		}
		return b.findByName(ctx, a, p, user, acc)
	}
	me, err := b.whoami(ctx)
	if err != nil {
		return nil, err
	}
	begun := b.config.Now()
	ws, err := getWorkspace(ctx, b.self, id)
	if err != nil || ws == nil {
		b.recent.forget(id)
		return nil, err
	}
	b.recent.see(*ws, begun)
	if b.config.Owner == OwnerSelf && ws.OwnerID != me.ID { // only an admin's token sees it
		return nil, notShown("its workspace %s belongs to the Coder user %s", ws.Name, ws.OwnerName)
	}
	acc, err := b.accountOf(ws.OwnerID.String(), me)
	if err != nil {
		return nil, err
	}
	b.known.set(a.UID, id)
	return b.place(*ws, acc), nil
}

// findByName looks for a workspace that was created for the agent but not recorded, because a call was interrupted. It
// returns nil if there is none.
func (b *Place) findByName(ctx context.Context, a fleet.Agent, p *project, user string, acc *account) (*place, error) {
	if p == nil {
		var err error
		p, err = b.project(ctx, a.Project)
		if fleet.ReasonOf(err) == fleet.ReasonProjectNotFound {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
	}
	ws, err := b.byName(ctx, user, acc, p.prefix()+a.Name)
	if err != nil || ws == nil || !b.madeFor(a, p, *ws) {
		return nil, err
	}
	b.known.set(a.UID, ws.ID)
	return b.place(*ws, acc), nil
}

// madeFor reports whether a workspace with the agent's name and owner was created for the agent: it has the agent's
// project, is not older than the agent, and does not belong to another agent.
func (b *Place) madeFor(a fleet.Agent, p *project, ws codersdk.Workspace) bool {
	if other := b.known.agent(ws.ID); other != "" {
		return other == a.UID
	}
	return ws.TemplateID == p.template.ID && !ws.CreatedAt.Before(a.CreatedAt.Add(b.throttle.ahead()-createSkew))
}

func (b *Place) byName(ctx context.Context, user string, acc *account, name string) (*codersdk.Workspace, error) {
	ws, err := ask(ctx, "looking for the workspace "+name, func(ctx context.Context) (codersdk.Workspace, error) {
		ws, err := acc.sdk.WorkspaceByOwnerAndName(ctx, user, name, codersdk.WorkspaceOptions{})
		return ws, ifGone(err)
	})
	if err != nil || ws.ID == uuid.Nil {
		return nil, err
	}
	return &ws, nil
}

// getWorkspace returns the workspace. It returns nil if Coder says that the workspace was deleted. The error is errNotShown
// if Coder does not find the workspace: Coder answers so to everybody who may not see it.
func getWorkspace(ctx context.Context, acc *account, id uuid.UUID) (*codersdk.Workspace, error) {
	deleted := false
	ws, err := ask(ctx, "reading a workspace", func(ctx context.Context) (codersdk.Workspace, error) {
		ws, err := acc.sdk.Workspace(ctx, id)
		switch {
		case saysDeleted(err, id):
			deleted, err = true, nil
		case gone(err):
			err = notShown("Coder does not show its workspace %s to the user of Fleet's token, and does not say that it was deleted", id)
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

// saysDeleted reports whether Coder says of the workspace with the id that it was deleted. Coder's answer names the workspace.
func saysDeleted(err error, id uuid.UUID) bool {
	var answer *codersdk.Error
	return errors.As(err, &answer) && answer.StatusCode() == http.StatusGone && strings.Contains(answer.Message, id.String())
}

// errNotShown is the cause of errors about a workspace that Coder does not show. It may exist.
var errNotShown = errors.New("the workspace is not shown")

// notShown returns the error about a workspace that Coder does not show. Callers retry, because the workspace may be shown
// again.
func notShown(format string, args ...any) error {
	return unavailable(format, args...).WithCause(errNotShown)
}

// ifGone returns nil if err means that something does not exist, else err.
func ifGone(err error) error {
	if gone(err) {
		return nil
	}
	return err
}

// place returns the place of the workspace, with the account that may access it.
func (b *Place) place(ws codersdk.Workspace, acc *account) *place {
	return &place{ws: ws, account: acc, Settings: b.settingsOf(ws)}
}

// settingsOf returns the settings of the workspace's template.
func (b *Place) settingsOf(ws codersdk.Workspace) Settings {
	for _, p := range b.config.Projects {
		if strings.EqualFold(p.Template, ws.TemplateName) {
			return p.Settings
		}
	}
	return b.config.Settings
}

// refresh reads the workspace again. It returns false if Coder says that the workspace was deleted.
func (p *place) refresh(ctx context.Context) (bool, error) {
	ws, err := getWorkspace(ctx, p.account, p.ws.ID)
	if err != nil || ws == nil {
		return false, err
	}
	p.ws = *ws
	return true, nil
}

// agent returns the workspace's agent that has a usable app, and the app. If no agent has one, it returns the first
// agent and no app.
func (p *place) agent() (*codersdk.WorkspaceAgent, *codersdk.WorkspaceApp) {
	var first *codersdk.WorkspaceAgent
	for _, slug := range p.slugs() {
		for i := range p.ws.LatestBuild.Resources {
			r := &p.ws.LatestBuild.Resources[i]
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

// neverConnected is how long a workspace's agent may take to connect, and its app to answer, before the workspace
// counts as unhealthy. A template can allow the agent more time.
const neverConnected = 2 * time.Minute

// state returns the state of the workspace, from its build, its agent and the app.
func (b *Place) state(p *place) (fleet.State, string) {
	build := p.ws.LatestBuild
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
		return b.agentState(p)
	}
	return fleet.StateUnhealthy, fmt.Sprintf("Coder reports the status %q, which this version of Fleet does not know", plain(string(build.Status)))
}

// ended reports whether the workspace does not run any more, which ends all its runs, and why.
func (b *Place) ended(p *place) (why string, ended bool) {
	switch state, reason := b.state(p); state {
	case fleet.StateRunning, fleet.StateStarting, fleet.StateUnhealthy:
		return "", false
	case fleet.StatePending:
		if p.ws.LatestBuild.Transition == "start" {
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

// offline returns the error that says why the agent cannot be reached, or nil if it can be reached.
func (b *Place) offline(a fleet.Agent, at *place) error {
	state, reason := b.state(at)
	return fleet.Workspace{State: state, Reason: reason}.Offline(a.Name)
}

// speaker returns the name of the program behind the app, for messages.
func speaker(app *codersdk.WorkspaceApp) string {
	if app.Slug == runnerSlug {
		return runnerSlug
	}
	return "AgentAPI"
}

func jobError(j codersdk.ProvisionerJob) string {
	if e := plain(j.Error); e != "" {
		return e
	}
	return "Coder gives no reason; the log of the build may have one"
}

// agentState returns the state of a workspace whose build has succeeded.
func (b *Place) agentState(p *place) (fleet.State, string) {
	agent, app := p.agent()
	if agent == nil {
		return fleet.StateUnhealthy, "its workspace has no agent: the template needs a coder_agent"
	}
	since := b.config.Now().Add(b.throttle.ahead())
	if done := p.ws.LatestBuild.Job.CompletedAt; done != nil {
		since = *done
	}
	age := b.config.Now().Add(b.throttle.ahead()).Sub(since)
	switch agent.Status {
	case codersdk.WorkspaceAgentConnected:
	case codersdk.WorkspaceAgentConnecting:
		if age > max(neverConnected, time.Duration(agent.ConnectionTimeoutSeconds)*time.Second) {
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
		return fleet.StateUnhealthy, fmt.Sprintf("its workspace has no app %s: the template needs a coder_app for fleet-runner or AgentAPI", strings.Join(p.slugs(), " or "))
	}
	failed := ""
	if agent.LifecycleState == codersdk.WorkspaceAgentLifecycleStartError {
		failed = ", and its startup script failed"
	}
	switch app.Health {
	case codersdk.WorkspaceAppHealthInitializing:
		if failed == "" && age <= neverConnected {
			return fleet.StateStarting, speaker(app) + " is starting"
		}
		return fleet.StateUnhealthy, speaker(app) + " does not answer" + failed
	case codersdk.WorkspaceAppHealthUnhealthy:
		return fleet.StateUnhealthy, speaker(app) + " does not answer" + failed
	}
	return fleet.StateRunning, ""
}
