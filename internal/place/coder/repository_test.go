package coder_test

import (
	"context"
	"crypto/ed25519"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/coder/v2/codersdk"
	"github.com/google/uuid"

	"fleet/internal/fleet"
	"fleet/internal/place/coder"
	"fleet/internal/runner/remote"
)

// unusedMethods are the methods that the tests do not call.
type unusedMethods interface{ remote.Repository }

// landingWorkspace simulates a workspace in which work can land. It has commits, and records calls.
type landingWorkspace struct {
	unusedMethods
	ws      codersdk.Workspace
	agent   fleet.Agent
	handler http.Handler

	mu         sync.Mutex
	down       bool
	clone      []string // commits of the agent
	copy       []string // commits in the copy of the project's repository
	calls      []string
	source     remote.Source
	needsWhole bool // whether Unpack finds the commit only in a pack that was written with whole set
}

func (w *landingWorkspace) Connect(fleet.Agent) fleet.Runner { return &scriptedRunner{} }

func (w *landingWorkspace) Repository(_ context.Context, _ fleet.Agent, s remote.Source) (remote.Repository, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.source = s
	return w, nil
}

func (w *landingWorkspace) record(call string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = append(w.calls, call)
}

// takeCalls returns the calls since the last call of takeCalls.
func (w *landingWorkspace) takeCalls() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	calls := w.calls
	w.calls = nil
	return calls
}

func (w *landingWorkspace) Collect(_ context.Context, commit string) (c remote.CollectResult, err error) {
	w.record("collect")
	if c.Found = slices.Contains(slices.Concat(w.clone, w.copy), commit); !c.Found {
		c.Have = []string{"tip"}
	} else if strings.HasPrefix(commit, "large") && !slices.Contains(w.copy, "file") {
		c.MissingLFS = []string{"file"}
	}
	return c, nil
}

func (w *landingWorkspace) WriteLFS(_ context.Context, digest string, out io.Writer) error {
	if !slices.Contains(w.clone, digest) {
		return fleet.Errorf(fleet.ReasonChangesNotFound, "no %s", digest)
	}
	_, err := io.WriteString(out, digest)
	return err
}

func (w *landingWorkspace) AddLFS(_ context.Context, digest string, in io.Reader) (bool, error) {
	b, err := io.ReadAll(in)
	if string(b) == digest {
		w.copy = append(w.copy, digest)
	}
	return string(b) == digest, err
}

func (w *landingWorkspace) Pack(_ context.Context, commit string, have []string, whole bool, out io.Writer) error {
	w.record("pack")
	if !slices.Contains(w.clone, commit) {
		return fleet.Errorf(fleet.ReasonChangesNotFound, "no %s", commit)
	}
	text := strings.Repeat("x", 100_000)
	if whole {
		text += " whole"
	}
	_, err := io.WriteString(out, commit+" "+strings.Join(have, " ")+text)
	return err
}

func (w *landingWorkspace) Unpack(_ context.Context, commit string, in io.Reader) (bool, error) {
	w.record("unpack")
	b, err := io.ReadAll(in)
	found := err == nil && strings.HasPrefix(string(b), commit) && (!w.needsWhole || strings.HasSuffix(string(b), " whole"))
	if found {
		w.copy = append(w.copy, commit)
	}
	return found, err
}

func (w *landingWorkspace) Contains(context.Context, string, string) (bool, error) { return false, nil }

func (w *landingWorkspace) Branch(context.Context, string) (fleet.Branch, error) {
	w.record("branch")
	return fleet.Branch{Name: "main", Commit: w.agent.Name}, nil
}

func (w *landingWorkspace) Push(context.Context, fleet.Push) (fleet.PushResult, error) {
	w.record("push")
	return fleet.PushResult{Remote: "origin", URL: "https://example.com/x"}, nil
}

// runnersWithoutLanding are runners that cannot land work.
type runnersWithoutLanding struct{ remote.Runners }

// newLandingCoder returns a deployment with a workspace for each agent. If the agent's name begins with old, its runner cannot
// land work. If the name begins with foreign, its workspace has the key of another server.
func newLandingCoder(t *testing.T, names ...string) (*fakeCoder, map[string]*landingWorkspace) {
	x := newFakeCoder(t)
	public, key, err := ed25519.GenerateKey(nil)
	x.NoError(err)
	x.key = key
	all := map[string]*landingWorkspace{}
	for n, name := range names {
		w := &landingWorkspace{ws: x.ws}
		w.ws.ID, w.ws.Name, w.ws.CreatedAt, w.ws.LatestBuild.ID = uuid.New(), "agent-"+name, x.ws.CreatedAt.Add(time.Duration(n)*time.Minute), uuid.New()
		r := x.resource()
		r.Agents[0].Apps = append(r.Agents[0].Apps, codersdk.WorkspaceApp{Slug: "fleet-runner", Health: codersdk.WorkspaceAppHealthHealthy})
		w.ws.LatestBuild.Resources = []codersdk.WorkspaceResource{r}
		w.agent = fleet.Agent{UID: "uid-" + name, Name: name, Owner: "fleet", Project: "setup", Role: "coder", WorkspaceID: w.ws.ID.String()}
		var runners remote.Runners = w
		if strings.HasPrefix(name, "old") {
			runners = runnersWithoutLanding{w}
		}
		serverKey := public
		if strings.HasPrefix(name, "foreign") {
			serverKey, _, err = ed25519.GenerateKey(nil)
			x.NoError(err)
		}
		server, err := remote.NewServer(runners, remote.ServerConfig{Key: serverKey})
		x.NoError(err)
		w.handler = http.StripPrefix("/@fleet/agent-"+name+".main/apps/fleet-runner", server.Handler())
		all[name] = w
	}
	x.fault = func(rw http.ResponseWriter, r *http.Request) bool {
		list := codersdk.WorkspacesResponse{}
		for _, name := range names {
			w := all[name]
			w.mu.Lock()
			ws, down := w.ws, w.down
			w.mu.Unlock()
			list.Workspaces = append(list.Workspaces, ws)
			switch {
			case r.URL.Path == "/api/v2/workspaces/"+ws.ID.String():
				return writeJSON(rw, ws)
			case !strings.HasPrefix(r.URL.Path, "/@fleet/agent-"+name+".main/"):
			case down:
				x.clockOffset.Add(int64(time.Minute)) // then the client gives up
				writePage(rw, http.StatusBadGateway)
				return true
			default:
				w.handler.ServeHTTP(rw, r)
				return true
			}
		}
		if list.Count = len(names); r.URL.Path == "/api/v2/workspaces" {
			return writeJSON(rw, list)
		}
		return false
	}
	return x, all
}

// TestLandingHost checks which workspace lands work, and how the commits of other agents get there.
func TestLandingHost(t *testing.T) {
	x, all := newLandingCoder(t, "old", "foreign", "ann", "bob")
	ctx, ann, bob := t.Context(), all["ann"], all["bob"]
	r, err := x.newPlace().Repository("setup")
	x.NoError(err)
	b, err := r.Branch(ctx, "")
	x.NoError(err)
	x.Equal("ann", b.Commit, "the host must be the oldest workspace whose runner can land work")

	bob.clone, ann.needsWhole = []string{"c1"}, true
	x.NoError(r.Collect(ctx, bob.agent, fleet.Changes{Commit: "c1"}))
	x.Equal([]string{"branch", "collect", "unpack", "unpack", "collect"}, ann.takeCalls())
	x.Equal([]string{"pack", "pack"}, bob.takeCalls(), "after an incomplete pack, a complete one must be made")
	x.NoError(r.Collect(ctx, bob.agent, fleet.Changes{Commit: "c1"}))
	x.Empty(bob.takeCalls())
	requireReason(t, r.Collect(ctx, bob.agent, fleet.Changes{Commit: "c2"}), fleet.ReasonChangesNotFound)
	x.NoError(r.(fleet.Importer).Import(ctx, fleet.Changes{Commit: "c3"}, []byte("c3 whole")))
	requireReason(t, r.(fleet.Importer).Import(ctx, fleet.Changes{Commit: "c5"}, []byte("other")), fleet.ReasonChangesNotFound)
	bob.clone = append(bob.clone, "large")
	requireReason(t, r.Collect(ctx, bob.agent, fleet.Changes{Commit: "large"}), fleet.ReasonChangesNotFound, "without the content of its file")
	requireReason(t, r.(fleet.Importer).Import(ctx, fleet.Changes{Commit: "large"}, nil), fleet.ReasonChangesNotFound)
	bob.clone = append(bob.clone, "file")
	x.NoError(r.Collect(ctx, bob.agent, fleet.Changes{Commit: "large"}))
	ann.takeCalls()

	pushed, err := r.Push(ctx, fleet.Push{Commit: "c1", Branch: "work"})
	x.NoError(err)
	x.Equal("origin", pushed.Remote)
	x.Empty(ann.takeCalls(), "the work of an agent must be pushed from its own workspace")
	x.Contains(bob.takeCalls(), "push")
}

// TestLandingHostIsUnreachable checks which workspace lands work while others are unreachable, and what the errors say if none can.
func TestLandingHostIsUnreachable(t *testing.T) {
	x, all := newLandingCoder(t, "old", "foreign", "ann", "bob", "carl")
	p, ctx := x.newPlace(), t.Context()
	ann, bob, carl := all["ann"], all["bob"], all["carl"]
	r, err := p.Repository("setup")
	x.NoError(err)
	b, err := r.Branch(ctx, "")
	x.NoError(err)
	x.Equal("ann", b.Commit)

	carl.clone, carl.down = []string{"c4"}, true
	requireReason(t, r.Collect(ctx, carl.agent, fleet.Changes{Commit: "c4"}), fleet.ReasonAgentOffline, "only this work waits")
	carl.ws.LatestBuild.Status = codersdk.WorkspaceStatusStopped
	requireReason(t, r.Collect(ctx, carl.agent, fleet.Changes{Commit: "c4"}), fleet.ReasonAgentOffline)
	ann.down = true
	_, err = r.Branch(ctx, "")
	x.Equal(fleet.ReasonBackendUnavailable, fleet.ReasonOf(err), "the host must stay the same until the caller begins again: %v", err)
	hostOf := func(project string) (string, error) {
		r, err := p.Repository(project)
		x.NoError(err)
		b, err := r.Branch(ctx, "")
		return b.Commit, err
	}
	name, err := hostOf("setup")
	x.NoError(err)
	x.Equal("bob", name)
	ann.down = false
	name, err = hostOf("setup")
	x.NoError(err)
	x.Equal("bob", name, "the last host must be chosen again, because it has the commits")

	ann.down, bob.ws.LatestBuild.Status = true, codersdk.WorkspaceStatusStopped
	_, err = hostOf("setup")
	requireError(x.T, err, fleet.ReasonUnimplemented, "restart its workspace with a newer fleet-runner")
	for name, w := range all {
		if name != "foreign" {
			w.ws.LatestBuild.Status = codersdk.WorkspaceStatusStopped
		}
	}
	_, err = hostOf("setup")
	requireError(x.T, err, fleet.ReasonAgentOffline, "belongs to another Fleet")
	all["foreign"].ws.LatestBuild.Status = codersdk.WorkspaceStatusStopped
	_, err = hostOf("setup")
	requireError(x.T, err, fleet.ReasonAgentOffline, "start one of its agents")
	_, err = hostOf("no")
	requireReason(x.T, err, fleet.ReasonProjectNotFound)
}

// TestLander checks that only the workspace of the configured agent lands work. If none is configured and the workspaces
// belong to several people, nobody's credentials may be used.
func TestLander(t *testing.T) {
	x, all := newLandingCoder(t, "ann", "bob")
	open := func(c coder.Config) fleet.Repository {
		r, err := x.open(c).Repository("setup")
		x.NoError(err)
		return r
	}
	_, err := open(coder.Config{Owner: coder.OwnerPrincipal}).Branch(t.Context(), "")
	requireError(x.T, err, fleet.ReasonUnimplemented, "set lander")
	x.Empty(all["ann"].takeCalls())

	withLander := coder.Config{Projects: map[string]coder.Project{"setup": {Settings: coder.Settings{Lander: "Bob", Repository: "https://example.com/x.git", Branch: "next"}}}}
	b, err := open(withLander).Branch(t.Context(), "")
	x.NoError(err)
	x.Equal("bob", b.Commit)
	x.Equal(remote.Source{URL: "https://example.com/x.git", Branch: "next"}, all["bob"].source)
	all["bob"].ws.LatestBuild.Status = codersdk.WorkspaceStatusStopped
	_, err = open(withLander).Branch(t.Context(), "")
	requireError(x.T, err, fleet.ReasonAgentOffline, `"Bob"`)
	x.Empty(all["ann"].takeCalls())

	// An older workspace of another owner has an agent with the same name.
	configWithLander := func(lander string) coder.Config {
		return coder.Config{Owner: coder.OwnerPrincipal, Projects: map[string]coder.Project{"setup": {Settings: coder.Settings{Lander: lander}}}}
	}
	all["ann"].ws.Name, all["ann"].ws.OwnerID, all["ann"].ws.OwnerName = "agent-bob", uuid.New(), "mallory"
	_, err = open(configWithLander("Bob@fleet")).Branch(t.Context(), "")
	requireReason(x.T, err, fleet.ReasonAgentOffline, "only the other owner's runs")
	all["bob"].ws.LatestBuild.Status = codersdk.WorkspaceStatusRunning
	b, err = open(configWithLander("Bob@fleet")).Branch(t.Context(), "")
	x.NoError(err)
	x.Equal("bob", b.Commit)
	_, err = open(configWithLander("Bob")).Branch(t.Context(), "")
	requireError(x.T, err, fleet.ReasonUnimplemented, "NAME@OWNER")
}
