package coder

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/coder/coder/v2/codersdk"

	"fleet/internal/fleet"
	"fleet/internal/runner/remote"
)

const (
	// runnerSlug is the slug of fleet-runner's app.
	runnerSlug = "fleet-runner"
	// publicKeyParameter is the name of the parameter with Fleet's public key. The runner accepts only requests that are signed with the
	// key.
	publicKeyParameter = "fleet_public_key"
	// runnerRetryTimeout is how long a runner may be unreachable before its workspace is inspected.
	runnerRetryTimeout = 10 * time.Second
	// runnerCursorPrefix is the prefix of cursors of runs in a fleet-runner. Cursors of AgentAPI do not have it.
	runnerCursorPrefix = "r"
)

// hasRunner reports whether the workspace has a fleet-runner.
func (w *workspace) hasRunner() bool {
	_, app := w.appAgent()
	return app != nil && app.Slug == runnerSlug
}

// hasApp reports whether Coder shows an app of the workspace that Fleet can use. It shows none if, for example, the workspace is
// stopped.
func (w *workspace) hasApp() bool {
	_, app := w.appAgent()
	return app != nil
}

// remoteRunner returns the runner of the agent in its fleet-runner. It returns the same errors as client.
func (p *Place) remoteRunner(a fleet.Agent, w *workspace) (fleet.Runner, error) {
	client, err := p.client(a, w)
	if err != nil {
		return nil, err
	}
	return client.Connect(a), nil
}

// client returns the client of the agent's fleet-runner. It returns AGENT_OFFLINE if the workspace does not exist or is not
// started, or if Fleet has no key for runners. The workspace need not be ready: after a restart of Coder's agent, runs continue
// while the startup script runs.
func (p *Place) client(a fleet.Agent, w *workspace) (*remote.Client, error) {
	if w == nil {
		return nil, fleet.Errorf(fleet.ReasonAgentOffline, "the agent %q has no workspace in Coder", a.Name)
	}
	if w.ws.LatestBuild.Status != codersdk.WorkspaceStatusRunning || !w.hasApp() {
		if err := p.offlineError(a, w); err != nil {
			return nil, err
		}
	}
	if len(p.config.RunnerKey) != ed25519.PrivateKeySize {
		return nil, fleet.Errorf(fleet.ReasonAgentOffline, "the agent %q has a fleet-runner, but this Fleet has no key to sign requests to it", a.Name)
	}
	return p.runnerClients.Get(remote.ClientConfig{
		URL: p.runnerURL(w), Key: p.config.RunnerKey, RetryTimeout: runnerRetryTimeout, MaxWait: p.streamLimit, JSON: p.streamLimit > 0, Now: p.config.Now,
		HTTP: &http.Client{Transport: runnerTransport{w.account, w.ws.Name}, CheckRedirect: w.account.http.CheckRedirect},
	}), nil
}

// runnerURL returns the URL of the workspace's fleet-runner. The workspace must have an app.
func (p *Place) runnerURL(w *workspace) string {
	agent, app := w.appAgent()
	return agentPage(p.url, w.ws, agent, "apps", app.Slug).String()
}

// runnerTransport sends requests to a runner through Coder's app proxy, and translates the proxy's own errors.
type runnerTransport struct {
	account       *account
	workspaceName string
}

// RoundTrip implements http.RoundTripper.
func (t runnerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := t.account.RoundTrip(r)
	var throttled *throttledError
	var token tokenError
	switch {
	case errors.As(err, &throttled), errors.As(err, &token):
		return nil, translate("speaking to the runner of "+t.workspaceName, err)
	case err != nil:
		return nil, err
	case res.StatusCode == http.StatusOK || res.Header.Get(remote.VersionHeader) != "":
		return res, nil // the runner's own response
	}
	switch res.StatusCode {
	case http.StatusUnauthorized, http.StatusSeeOther, http.StatusTemporaryRedirect:
		err = translate("speaking to the runner of "+t.workspaceName, t.account.newTokenError())
	case http.StatusForbidden:
		err = fleet.Errorf(fleet.ReasonPermissionDenied,
			"Coder does not serve the runner of %s (403): path apps are disabled. Start Coder without --disable-path-apps "+
				"(CODER_DISABLE_PATH_APPS=false), since Fleet reaches agents only by path apps", t.workspaceName)
	case http.StatusNotFound:
		err = fleet.Errorf(fleet.ReasonBackendUnavailable,
			"Coder does not find the app %s of %s, or does not show it to the user of Fleet's token: only the owner of a workspace can reach its apps", runnerSlug, t.workspaceName)
	default:
		return res, nil // from another proxy; the client retries
	}
	drain(res.Body)
	return nil, err
}

// readForeignOwner reads from the workspace's parameters whether the workspace belongs to another Fleet or to a person. If so, it
// sets the foreign owner and the reason in out. A runner accepts only requests of the Fleet whose key is in the parameters, so a
// running workspace of another owner becomes unhealthy. It changes nothing if the template has no parameter for the key.
// An error means that the owner is not known.
func (p *Place) readForeignOwner(ctx context.Context, w *workspace, out *fleet.Workspace) error {
	if len(p.config.RunnerKey) == 0 {
		return nil
	}
	v, err := p.versionOrRecentError(ctx, w.ws.LatestBuild.TemplateVersionID)
	if v == nil || v.parameter(publicKeyParameter) == nil {
		return err
	}
	values, err := p.readBuildParameters(ctx, w.account, w.ws.LatestBuild.ID)
	if err != nil {
		return err
	}
	switch key := valueOf(values, publicKeyParameter); key {
	case remote.FormatPublicKey(p.config.RunnerKey):
		return nil
	case "":
		out.Host.ForeignOwner = "a person"
	default:
		sum := sha256.Sum256([]byte(key))
		out.Host.ForeignOwner = "another Fleet (" + hex.EncodeToString(sum[:4]) + ")"
	}
	if out.State == fleet.StateRunning {
		out.State = fleet.StateUnhealthy
	}
	out.Reason = strings.TrimPrefix(out.Reason+"; ", "; ") + "its workspace belongs to " + out.Host.ForeignOwner +
		", or to this Fleet before it lost its database: restart the agent with take_over to make it this Fleet's"
	return nil
}

// withPublicKey adds Fleet's public key to the values, unless the template has no parameter for the key or the last build
// already had the key. oldValues are the parameters of the last build.
func (p *Place) withPublicKey(v *version, oldValues, values []codersdk.WorkspaceBuildParameter) []codersdk.WorkspaceBuildParameter {
	if len(p.config.RunnerKey) == 0 || v.parameter(publicKeyParameter) == nil {
		return values
	}
	key := remote.FormatPublicKey(p.config.RunnerKey)
	if valueOf(oldValues, publicKeyParameter) == key {
		return values
	}
	return append(values, codersdk.WorkspaceBuildParameter{Name: publicKeyParameter, Value: key})
}
