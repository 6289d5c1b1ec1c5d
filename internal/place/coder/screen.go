package coder

import (
	"context"
	"net/http"

	"fleet/internal/fleet"
	"fleet/internal/runner/agentapi"
)

// screen implements agentapi.Workspace.
type screen struct {
	place *Place
	agent fleet.Agent
	at    *workspace
}

// Facts implements agentapi.Workspace.
func (s screen) Facts() agentapi.Facts {
	f := s.place.facts(s.at)
	f.Offline = s.place.offline(s.agent, s.at)
	return f
}

// facts returns the facts about the workspace that package agentapi needs.
func (p *Place) facts(at *workspace) agentapi.Facts {
	build := at.ws.LatestBuild
	f := agentapi.Facts{
		Running: build.Transition == "start" && build.Status == "running", Started: build.CreatedAt, Ahead: p.throttle.ahead(),
		HTTP: &http.Client{Transport: agentProxy{at.account}, CheckRedirect: at.account.http.CheckRedirect},
	}
	f.Ended, _ = p.ended(at)
	_, f.Problem = p.state(at)
	agent, app := at.agent()
	if app == nil {
		return f
	}
	if at.hasRunner() { // the template was updated to have fleet-runner
		f.Ended = "its workspace was restarted, now with " + runnerSlug
		return f
	}
	f.URL = p.url.JoinPath("@"+at.ws.OwnerName, at.ws.Name+"."+agent.Name, "apps", app.Slug)
	for _, s := range app.Statuses {
		f.Reports = append(f.Reports, agentapi.Report{At: s.CreatedAt, State: string(s.State), Message: plain(s.Message), Location: plain(s.URI)})
	}
	return f
}

// Refresh implements agentapi.Workspace.
func (s screen) Refresh(ctx context.Context) (bool, error) { return s.at.refresh(ctx) }

// Spec implements agentapi.Workspace.
func (s screen) Spec(ctx context.Context) (string, error) {
	version, err := s.place.version(ctx, s.at.ws.LatestBuild.TemplateVersionID)
	if err != nil || s.at.spec(version) != nil {
		return "", err
	}
	return s.agent.Spec, nil
}

// Translate implements agentapi.Workspace.
func (screen) Translate(what string, err error) error { return translate(what, err) }

// agentProxy sends requests to AgentAPI through Coder's app proxy. It translates only the proxy's answer for a token
// that Coder does not accept. The client recognises the proxy's other answers itself.
type agentProxy struct{ account *account }

// RoundTrip implements http.RoundTripper.
func (p agentProxy) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := p.account.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	switch res.StatusCode {
	case http.StatusUnauthorized, http.StatusSeeOther, http.StatusTemporaryRedirect:
		drain(res.Body)
		return nil, p.account.refused()
	}
	return res, nil
}
