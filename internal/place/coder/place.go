package coder

import (
	"context"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/coder/coder/v2/codersdk"
	"github.com/google/uuid"

	"fleet/internal/fleet"
	"fleet/internal/runner/agentapi"
	"fleet/internal/runner/remote"
)

// Place runs agents in a Coder deployment. It implements fleet.Place.
type Place struct {
	config    Config
	url       *url.URL
	throttle  *throttle
	self      *account // sends requests as Fleet's own user
	closeIdle func()   // closes idle connections, if the place has created its own transport

	catalog         catalog
	owners          owners
	identity        identity
	index           workspaceIndex
	factCache       factCache
	deployment      deployment
	recent          recentWorkspaces
	activity        activity
	listCache       listCache
	lastHosts       sync.Map          // the name of the agent in whose workspace work was last brought together, by project
	runnerClients   remote.Clients    // clients of the fleet-runners in workspaces
	agentAPIRunners *agentapi.Runners // runners for workspaces that have only AgentAPI

	// streamLimit limits the time of a stream from a runner. It is 0 except in tests that record or replay. If it is not 0, the
	// streams use JSON.
	streamLimit time.Duration

	// sleep waits for a duration, or until the context is done. Tests that replay do not wait.
	sleep func(context.Context, time.Duration) error
}

var (
	_ fleet.Place     = (*Place)(nil)
	_ fleet.Optioner  = (*Place)(nil)
	_ fleet.Versioner = (*Place)(nil)

	_ fleet.Integrator = (*Place)(nil)
	_ fleet.Importer   = (*repository)(nil)
)

// New validates the configuration and creates a Place. It makes no request. The caller must close the Place.
func New(c Config) (*Place, error) {
	u, err := c.prepare()
	if err != nil {
		return nil, err
	}
	p := &Place{
		config: c, url: u, sleep: sleep, closeIdle: func() {},
		catalog: catalog{versions: map[uuid.UUID]*version{}, failures: map[uuid.UUID]readFailure{}},
		owners:  owners{tokens: map[string]*ownerToken{}},
		index:   workspaceIndex{byUID: map[string]uuid.UUID{}, agents: map[uuid.UUID]string{}},
		factCache: factCache{
			byID: map[uuid.UUID]*workspaceFacts{}, byBuild: map[uuid.UUID][]codersdk.WorkspaceBuildParameter{}, failures: map[uuid.UUID]readFailure{},
		},
		recent:    recentWorkspaces{byID: map[uuid.UUID]recentWorkspace{}},
		activity:  activity{runs: map[uuid.UUID]int{}, endedAt: map[uuid.UUID]time.Time{}},
		listCache: listCache{buildRequestedAt: map[uuid.UUID]time.Time{}},
	}
	wait := func(ctx context.Context, d time.Duration) error { return p.sleep(ctx, d) }
	base := c.Transport
	if base == nil {
		t := newTransport()
		base, p.closeIdle = t, t.CloseIdleConnections
	}
	if c.WrapTransport != nil {
		base = c.WrapTransport(base)
	}
	p.throttle = &throttle{base: base, now: c.Now, sleep: wait}
	p.self = p.newAccount(p.verifiedToken)
	p.agentAPIRunners = agentapi.New(agentapi.Config{Now: c.Now, Wait: wait})
	return p, nil
}

// Traits implements fleet.Place.
func (p *Place) Traits() fleet.Traits {
	return fleet.Traits{
		Name: "coder", PollInterval: p.config.PollInterval, StopGrace: stopGrace,
		ReachesFleet: p.config.FleetURL != "", FleetURL: mcpURL(p.config.FleetURL),
		StopEndsRuns: true, Adopts: true, KeepsVersions: true, CallsKeepAwake: true, UniqueNames: p.config.Owner == OwnerSelf,
		Asks: true, SupportsChanges: true, SupportsChecks: true, HasProjectChecks: true, SupportsBundles: true, SupportsOutput: true, // in workspaces that have fleet-runner
	}
}

// stopGrace is how long an interrupted agent may take to become idle. AgentAPI needs two seconds to notice that an
// agent is idle.
const stopGrace = 6 * time.Second

// Close implements fleet.Place. It revokes the tokens that Fleet has created for owners.
func (p *Place) Close() error {
	p.owners.close(p)
	p.closeIdle()
	return nil
}

// mcpURL returns the address of the MCP endpoints of the Fleet at the address base; "" if base is "".
func mcpURL(base string) string {
	if base == "" {
		return ""
	}
	return strings.TrimRight(base, "/") + "/mcp"
}
