package state

import (
	"context"
	"errors"

	"fleet/internal/fleet"
)

// Elsewhere reads what is on the machines of other servers. If such a server does not answer, the error names it.
type Elsewhere interface {
	// Runner returns the runner of an agent on the machine of the server. Only its Output, Patch and Bundle may be called.
	Runner(server string, a fleet.Agent) fleet.Runner

	// Place returns the place of the name on the machine of the server.
	Place(server, name string) PlaceReader
}

// PlaceReader is what can be read from a place, see fleet.Place.
type PlaceReader interface {
	Projects(ctx context.Context) ([]fleet.Project, error)
	Roles(ctx context.Context, project string) ([]fleet.Role, error)
	Log(ctx context.Context, a fleet.Agent, lines int) (log []string, more bool, err error)
}

// elsewhere returns the place of the name if it is one of another server; otherwise nil. What is wanted of its agents goes
// through the store, and that server does it. What is read from the machine itself, such as raw output, logs and roles, comes from that server.
func (ps *Places) elsewhere(name string) *ManagedPlace {
	kind, server := fleet.ReplicaOf(name)
	if server == "" || server == ps.cfg.Replica {
		return nil
	}
	twin := ps.Lookup(kind) // the programs of all servers are alike, so it can do the same
	if twin == nil {
		return nil
	}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p := ps.away[name]
	if p == nil {
		place := absentPlace{name: name, server: server, facts: twin.Facts, elsewhere: ps.cfg.Elsewhere}
		p = &ManagedPlace{
			Place: place, Name: name, Facts: place.Traits(), Catalog: newCatalog(place, ps.cfg.Now), Interval: twin.Interval, Grace: twin.Grace,
			store: ps.store, log: ps.cfg.Logger, now: ps.cfg.Time, started: ps.started, changed: &ps.changed,
		}
		ps.away[name] = p
	}
	return p
}

// SyncElsewhere takes in what other servers have recorded about the places of these agents.
func (ps *Places) SyncElsewhere(ctx context.Context, agents []*fleet.AgentView) error {
	seen := map[*ManagedPlace]bool{}
	var errs []error
	for _, v := range agents {
		if p := ps.elsewhere(v.Place); p != nil && !seen[p] {
			seen[p] = true
			errs = append(errs, p.SyncHealth(ctx, ps.cfg.CallTimeout))
		}
	}
	return errors.Join(errs...)
}
