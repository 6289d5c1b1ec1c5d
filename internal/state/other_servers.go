package state

import (
	"context"
	"errors"

	"fleet/internal/fleet"
)

// OtherServers reads from the machines of other servers. If such a server does not answer, the error names it.
type OtherServers interface {
	// Runner returns the runner of an agent on the machine of the server. Only its Compare, Patch, Output and Bundle may be called.
	Runner(server string, a fleet.Agent) fleet.Runner

	// Place returns the reader of the server's place with the name.
	Place(server, name string) PlaceReader
}

// PlaceReader has the methods of fleet.Place, and of its optional interfaces, that only read.
type PlaceReader interface {
	Projects(ctx context.Context) ([]fleet.Project, error)
	Roles(ctx context.Context, project string) ([]fleet.Role, error)
	Log(ctx context.Context, a fleet.Agent, lines int) (log []string, more bool, err error)
	fleet.Keeper
	fleet.Examiner
}

// placeOnOtherServer returns the place with the name if the name ends with the name of another server, and this server has a place of
// the same kind; otherwise nil. It does not check whether that server exists. Changes of the place's agents go through the store, and
// the other server carries them out. Data of the machine itself, such as raw output, logs and roles, is read from the other server.
func (ps *Places) placeOnOtherServer(name string) *ManagedPlace {
	_, server := fleet.SplitPlace(name)
	if server == "" || server == ps.cfg.Replica {
		return nil
	}
	ownPlace := ps.placeOfSameKind(name) // all servers run the same program, so this server's place of the kind has the same traits
	if ownPlace == nil {
		return nil
	}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p := ps.placesOnOtherServers[name]
	if p == nil {
		p = ps.newManaged(absentPlace{name: name, server: server, placeOfSameKind: ps.placeOfSameKind, traits: ownPlace.Traits(), others: ps.cfg.OtherServers})
		ps.placesOnOtherServers[name] = p
	}
	return p
}

// placeOfSameKind returns this server's place of the same kind as the place with the name; nil if it has none.
func (ps *Places) placeOfSameKind(name string) *ManagedPlace {
	kind, _ := fleet.SplitPlace(name)
	return ps.Configured(kind)
}

// SyncOtherServers reads what other servers have recorded about the places of these agents.
func (ps *Places) SyncOtherServers(ctx context.Context, agents []*fleet.AgentView) error {
	synced := map[*ManagedPlace]bool{}
	var errs []error
	for _, v := range agents {
		if p := ps.placeOnOtherServer(v.Place); p != nil && !synced[p] {
			synced[p] = true
			errs = append(errs, p.SyncHealth(ctx, ps.cfg.CallTimeout))
		}
	}
	return errors.Join(errs...)
}
