package coder

import (
	"context"
	"net/http"

	"fleet/internal/fleet"
	"fleet/internal/runner/agentapi"
)

// agentAPIWorkspace implements agentapi.Workspace.
type agentAPIWorkspace struct {
	place *Place
	agent fleet.Agent
	w     *workspace
}

// Facts implements agentapi.Workspace.
func (a agentAPIWorkspace) Facts() agentapi.Facts {
	f := a.place.agentAPIFacts(a.w)
	f.OfflineErr = a.place.offlineError(a.agent, a.w)
	return f
}

// agentAPIFacts returns the facts about the workspace that package agentapi needs.
func (p *Place) agentAPIFacts(w *workspace) agentapi.Facts {
	build := w.ws.LatestBuild
	f := agentapi.Facts{
		Running: build.Transition == "start" && build.Status == "running", Started: build.CreatedAt, ClockSkew: p.throttle.clockSkew(),
		HTTP: &http.Client{Transport: agentAPITransport{w.account}, CheckRedirect: w.account.http.CheckRedirect},
	}
	f.EndReason, _ = p.hasStopped(w)
	_, f.Problem = p.state(w)
	agent, app := w.appAgent()
	if app == nil {
		return f
	}
	if w.hasRunner() { // the template was updated to include fleet-runner
		f.EndReason = "its workspace was restarted, now with " + runnerSlug
		return f
	}
	f.URL = agentPage(p.url, w.ws, agent, "apps", app.Slug)
	for _, s := range app.Statuses {
		f.Reports = append(f.Reports, agentapi.Report{At: s.CreatedAt, State: string(s.State), Message: shortLine(s.Message), Location: shortLine(s.URI)})
	}
	return f
}

// Refresh implements agentapi.Workspace.
func (a agentAPIWorkspace) Refresh(ctx context.Context) (bool, error) { return a.w.refresh(ctx) }

// Spec implements agentapi.Workspace. It returns "" if the workspace got the specification by a parameter.
func (a agentAPIWorkspace) Spec(ctx context.Context) (string, error) {
	version, err := a.place.version(ctx, a.w.ws.LatestBuild.TemplateVersionID)
	if err != nil || a.w.findSpecParameter(version) != nil {
		return "", err
	}
	return a.agent.Spec, nil
}

// Translate implements agentapi.Workspace.
func (agentAPIWorkspace) Translate(what string, err error) error { return translate(what, err) }

// agentAPITransport sends requests to AgentAPI through Coder's app proxy. It translates only one of the proxy's own
// answers: that Coder does not accept the token. Package runner/agentapi recognises the others.
type agentAPITransport struct{ account *account }

// RoundTrip implements http.RoundTripper.
func (t agentAPITransport) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := t.account.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	switch res.StatusCode {
	case http.StatusUnauthorized, http.StatusSeeOther, http.StatusTemporaryRedirect:
		drain(res.Body)
		return nil, t.account.newTokenError()
	}
	return res, nil
}
