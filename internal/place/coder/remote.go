package coder

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coder/coder/v2/codersdk"

	"fleet/internal/fleet"
	"fleet/internal/runner/remote"
)

const (
	// runnerSlug is the app of a workspace in which fleet-runner serves.
	runnerSlug = "fleet-runner"
	// keyParameter takes Fleet's public key, so that the runner takes requests of this Fleet alone.
	keyParameter = "fleet_public_key"
	// remotePatience is how long a runner may be out of reach before its workspace is looked at.
	remotePatience = 10 * time.Second
	// cursorMark begins the cursors of runs that a fleet-runner has, which tells them from those of AgentAPI.
	cursorMark = "r"
)

// hasRunner says whether Fleet speaks to the workspace's fleet-runner, and not to AgentAPI.
func (p *place) hasRunner() bool {
	_, app := p.agent()
	return app != nil && app.Slug == runnerSlug
}

// remotes are the clients of runners by their URL. Each remembers its handshake.
type remotes struct {
	mu      sync.Mutex
	clients map[string]*remote.Client
}

// remote returns the agent's runner in its workspace.
func (b *Place) remote(a fleet.Agent, at *place) (fleet.Runner, error) {
	if at == nil {
		return nil, fleet.Errorf(fleet.ReasonAgentOffline, "the agent %q has no workspace in Coder", a.Name)
	}
	if err := b.offline(a, at); err != nil {
		return nil, err
	}
	if len(b.config.RunnerKey) != ed25519.PrivateKeySize {
		return nil, fleet.Errorf(fleet.ReasonAgentOffline, "the agent %q has a fleet-runner, and this Fleet has no key to sign its requests", a.Name)
	}
	agent, app := at.agent()
	url := b.url.JoinPath("@"+at.ws.OwnerName, at.ws.Name+"."+agent.Name, "apps", app.Slug).String()
	b.remotes.mu.Lock()
	defer b.remotes.mu.Unlock()
	c := b.remotes.clients[url]
	if c == nil {
		c = remote.NewClient(remote.ClientConfig{
			URL: url, Key: b.config.RunnerKey, Patience: remotePatience, Now: b.config.Now,
			HTTP: &http.Client{Transport: appProxy{at.account, at.ws.Name}, CheckRedirect: at.account.http.CheckRedirect},
		})
		b.remotes.clients[url] = c
	}
	return c.Connect(a), nil
}

// appProxy carries requests to a runner through Coder's app proxy, and translates what the proxy itself answers.
type appProxy struct {
	account   *account
	workspace string
}

// RoundTrip implements http.RoundTripper.
func (p appProxy) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := p.account.RoundTrip(r)
	var throttled *throttledError
	var token tokenError
	switch {
	case errors.As(err, &throttled), errors.As(err, &token):
		return nil, translate("speaking to the runner of "+p.workspace, err)
	case err != nil:
		return nil, err
	case res.StatusCode == http.StatusOK || res.Header.Get(remote.Header) != "":
		return res, nil // the runner's own answer
	}
	switch res.StatusCode {
	case http.StatusUnauthorized, http.StatusSeeOther, http.StatusTemporaryRedirect:
		err = fleet.Errorf(fleet.ReasonPermissionDenied,
			"the Coder token is not accepted by the app proxy: log in again, or set CODER_SESSION_TOKEN to a valid one")
	case http.StatusForbidden:
		err = fleet.Errorf(fleet.ReasonPermissionDenied,
			"Coder does not serve the runner of %s (403): path apps are disabled. Start Coder without --disable-path-apps "+
				"(CODER_DISABLE_PATH_APPS=false), since Fleet reaches agents by path apps only", p.workspace)
	case http.StatusNotFound:
		err = fleet.Errorf(fleet.ReasonBackendUnavailable,
			"Coder does not know the app %s of %s, or does not show it to the user of Fleet's token: only a workspace's owner reaches its apps", runnerSlug, p.workspace)
	default:
		return res, nil // a proxy on the way; the client tries again
	}
	drain(res.Body)
	return nil, err
}

// followRemote follows a run that a fleet-runner has.
func (f *follower) followRemote(ctx context.Context, cursor string) (fleet.Outcome, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var sinking sync.Mutex
	pass := func(out fleet.Output) error {
		sinking.Lock()
		defer sinking.Unlock()
		if out.Cursor != "" {
			cursor = out.Cursor
		}
		if out.Question == nil { // which is no part of what cursors count
			out.Cursor = cursorMark + cursor
		}
		return f.sink(out)
	}
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		f.b.keepUp(ctx, f.agent, *f.at, func(words string) { _ = pass(warning(words)) })
	}()
	defer func() {
		cancel()
		<-kept
	}()
	for {
		if o, ended := f.gone(); ended {
			return o, nil
		}
		r, err := f.b.remote(f.agent, f.at)
		if err == nil {
			var o fleet.Outcome
			sinking.Lock()
			from := cursor
			sinking.Unlock()
			if o, err = r.Follow(ctx, f.run, from, func(out fleet.Output) error {
				f.lost = time.Time{}
				return pass(out)
			}); err == nil {
				return o, nil
			}
		}
		if reason := fleet.ReasonOf(err); ctx.Err() != nil || reason != fleet.ReasonBackendUnavailable && reason != fleet.ReasonAgentOffline {
			return fleet.Outcome{}, err
		}
		f.isLost()
		if f.now().Sub(f.lost) > patienceLost {
			return failed("the agent could not be reached for " + patienceLost.String() + ": " + fleet.Words(err)), nil
		}
		if err := f.b.wait(ctx, pollPause); err != nil {
			return fleet.Outcome{}, err
		}
		there, err := f.at.refresh(ctx)
		if err != nil {
			return fleet.Outcome{}, err
		}
		if !there {
			return failed("its workspace was deleted"), nil
		}
	}
}

// warning is an output about the run that is not the agent's own.
func warning(words string) fleet.Output {
	data, _ := json.Marshal(map[string]string{"type": "warning", "message": words}) // strings always can be
	return fleet.Output{Step: true, Text: words, Data: data}
}

const (
	keepEvery = 5 * time.Minute  // how often the deadline of a workspace is looked at while a task runs in it
	keepLeft  = 45 * time.Minute // how little time must be left for it to be extended
	keepAhead = 90 * time.Minute // how long it is extended to
)

// keepUp extends the deadline of a workspace until ctx is done: requests to an app do not count as activity, so Coder would
// stop the workspace below a task. warn gets what it could not do, once.
func (b *Place) keepUp(ctx context.Context, a fleet.Agent, at place, warn func(string)) {
	for warned := false; ; {
		if words := b.extend(ctx, &at); words != "" && !warned && ctx.Err() == nil {
			warned = true
			b.config.Logger.WarnContext(ctx, "workspace deadline not extended", "agent", a.Name, "reason", words)
			warn(words)
		}
		if b.wait(ctx, keepEvery) != nil {
			return
		}
		if there, err := at.refresh(ctx); err == nil && !there {
			return
		}
	}
}

// extend extends the deadline of a workspace that is to be stopped soon. It returns in words why it could not.
func (b *Place) extend(ctx context.Context, at *place) string {
	build, now := at.ws.LatestBuild, b.config.Now().Add(b.gate.ahead())
	if !build.Deadline.Valid || build.Deadline.Time.Sub(now) > keepLeft || !build.Deadline.Time.After(now) {
		return ""
	}
	stops := build.Deadline.Time.UTC().Format(time.RFC3339)
	until := now.Add(keepAhead)
	if last := build.MaxDeadline; last.Valid && last.Time.Before(until) {
		until = last.Time
	}
	if !until.After(build.Deadline.Time) {
		return "Coder stops the workspace at " + stops + ", the latest that its template allows; a task that runs then ends"
	}
	_, err := ask(ctx, "extending the deadline of the workspace", func(ctx context.Context) (struct{}, error) {
		return struct{}{}, at.account.sdk.PutExtendWorkspace(ctx, at.ws.ID, codersdk.PutExtendWorkspaceRequest{Deadline: until})
	})
	if err != nil {
		return "Coder stops the workspace at " + stops + ": " + fleet.Words(err)
	}
	at.ws.LatestBuild.Deadline.Time = until
	return ""
}

// withKey adds Fleet's public key to the parameters of a build, where the template takes it and does not have it.
func (b *Place) withKey(v *version, had, values []codersdk.WorkspaceBuildParameter) []codersdk.WorkspaceBuildParameter {
	if len(b.config.RunnerKey) == 0 || v.parameter(keyParameter) == nil {
		return values
	}
	key := remote.PublicText(b.config.RunnerKey)
	if valueOf(had, keyParameter) == key {
		return values
	}
	return append(values, codersdk.WorkspaceBuildParameter{Name: keyParameter, Value: key})
}

// isRemote says whether the cursor is of a run that a fleet-runner has, and returns it as the runner knows it.
func isRemote(cursor string) (string, bool) { return strings.CutPrefix(cursor, cursorMark) }
