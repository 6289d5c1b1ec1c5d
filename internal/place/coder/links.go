package coder

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/coder/coder/v2/codersdk"

	"fleet/internal/fleet"
)

// maxPorts limits the links to ports of a workspace, because an agent can listen on any number of ports.
const maxPorts = 20

// links returns the links that Coder's own page has for the workspace: its page and, if it runs, its terminals, editors
// and apps, and the ports in the cache.
func (p *Place) links(w *workspace) []fleet.Link {
	links := []fleet.Link{{Name: "Workspace", URL: p.location(w.ws)}}
	if w.ws.LatestBuild.Status != codersdk.WorkspaceStatusRunning {
		return links
	}
	accessURL, appHost := p.addresses()
	agentCount := 0
	for _, r := range w.ws.LatestBuild.Resources {
		agentCount += len(r.Agents)
	}
	for _, r := range w.ws.LatestBuild.Resources {
		for i := range r.Agents {
			agent := &r.Agents[i]
			if agent.Status != codersdk.WorkspaceAgentConnected {
				continue
			}
			first := len(links)
			links = append(links, displayLinks(accessURL, w.ws, agent)...)
			for _, app := range agent.Apps {
				if address := appLink(accessURL, appHost, w.ws, agent, app); address != "" {
					links = append(links, fleet.Link{Name: shortLine(cmp.Or(app.DisplayName, app.Slug)), URL: address})
				}
			}
			for k := first; agentCount > 1 && k < len(links); k++ {
				links[k].Name += " (" + agent.Name + ")"
			}
		}
	}
	if agent, _ := w.appAgent(); agent != nil && appHost != "" {
		for _, port := range p.factCache.get(w.ws).ports {
			name := fmt.Sprintf("%d--%s--%s--%s", port, agent.Name, w.ws.Name, w.ws.OwnerName)
			links = append(links, fleet.Link{Name: fmt.Sprintf("Port %d", port), URL: appURL(accessURL, appHost, name)})
		}
	}
	return links
}

// displayLinks returns the links to the terminal and the editors of the agent, as far as the template shows them.
func displayLinks(accessURL *url.URL, ws codersdk.Workspace, agent *codersdk.WorkspaceAgent) (links []fleet.Link) {
	if slices.Contains(agent.DisplayApps, codersdk.DisplayAppWebTerminal) {
		links = append(links, fleet.Link{Name: "Terminal", URL: agentPage(accessURL, ws, agent, "terminal").String()})
	}
	for _, editor := range []struct {
		app          codersdk.DisplayApp
		name, scheme string
	}{
		{codersdk.DisplayAppVSCodeDesktop, "VS Code", "vscode"},
		{codersdk.DisplayAppVSCodeInsiders, "VS Code Insiders", "vscode-insiders"},
	} {
		if !slices.Contains(agent.DisplayApps, editor.app) {
			continue
		}
		query := url.Values{"owner": {ws.OwnerName}, "workspace": {ws.Name}, "agent": {agent.Name}, "url": {accessURL.Scheme + "://" + accessURL.Host}, "openRecent": {"true"}}
		if agent.ExpandedDirectory != "" {
			query.Set("folder", agent.ExpandedDirectory)
			query.Del("openRecent")
		}
		u := url.URL{Scheme: editor.scheme, Host: "coder.coder-remote", Path: "/open", RawQuery: query.Encode()}
		links = append(links, fleet.Link{Name: editor.name, URL: u.String()})
	}
	return links
}

// agentPage returns the URL of a page of the agent, for example of its terminal or of an app. base is the URL of the deployment.
func agentPage(base *url.URL, ws codersdk.Workspace, agent *codersdk.WorkspaceAgent, parts ...string) *url.URL {
	return base.JoinPath(append([]string{"@" + ws.OwnerName, ws.Name + "." + agent.Name}, parts...)...)
}

// sessionTokenPlaceholder is the placeholder for the user's token in links to external apps. Coder's page replaces it.
const sessionTokenPlaceholder = "$SESSION_TOKEN"

// appLink returns the address at which people open the app. It returns "" if there is none, if the app is fleet-runner, hidden or
// unhealthy, or if only Coder's own page can open it.
func appLink(accessURL *url.URL, appHost string, ws codersdk.Workspace, agent *codersdk.WorkspaceAgent, app codersdk.WorkspaceApp) string {
	switch {
	case app.Hidden || app.Slug == runnerSlug || app.Health == codersdk.WorkspaceAppHealthUnhealthy:
		return ""
	case app.External && strings.Contains(app.URL, sessionTokenPlaceholder): // only Coder's page can open it
		return ""
	case app.External:
		return app.URL
	case app.Command != "":
		u := agentPage(accessURL, ws, agent, "terminal")
		u.RawQuery = url.Values{"command": {app.Command}}.Encode()
		return u.String()
	case app.Subdomain && (appHost == "" || app.SubdomainName == ""):
		return ""
	case app.Subdomain:
		return appURL(accessURL, appHost, app.SubdomainName)
	}
	return agentPage(accessURL, ws, agent, "apps", app.Slug).String() + "/"
}

// readPorts reads the ports on which programs in the workspace listen into the cache. It sends no request if nobody could open
// them, because Coder has no host name for ports or the template does not show them. Errors are only logged.
func (p *Place) readPorts(ctx context.Context, w *workspace) {
	agent, _ := w.appAgent()
	if _, appHost := p.addresses(); appHost == "" || agent == nil || !slices.Contains(agent.DisplayApps, codersdk.DisplayAppPortForward) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, metadataTimeout)
	defer cancel()
	answer, err := callCoder(ctx, "listing the ports of "+w.ws.Name, func(ctx context.Context) (codersdk.WorkspaceAgentListeningPortsResponse, error) {
		return w.account.sdk.WorkspaceAgentListeningPorts(ctx, agent.ID)
	})
	if err != nil {
		p.config.Logger.DebugContext(ctx, "cannot list ports", "workspace", w.ws.Name, "error", err)
		return
	}
	var ports []uint16
	for _, port := range answer.Ports {
		ports = append(ports, port.Port)
	}
	slices.Sort(ports)
	ports = slices.Compact(ports)
	p.factCache.update(w.ws, func(v *workspaceFacts) { v.ports = ports[:min(len(ports), maxPorts)] })
}
