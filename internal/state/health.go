package state

import (
	"context"
	"fmt"
	"time"

	"fleet/internal/fleet"
)

// These are the names of degraded parts, apart from places, which have their own names.
const (
	partStore = "store"
	partPoll  = "poll"
	partDisk  = "disk"
	// partSchema is degraded when a newer Fleet has upgraded the database, partLeases when leases cannot be renewed.
	partSchema = "schema"
	partLeases = "leases"
	partServer = "server" // the server is about to stop
)

// SetShuttingDown makes the server not ready, because it is about to stop.
func (ps *Places) SetShuttingDown() { ps.shutdownAt.Store(new(ps.cfg.Time())) }

// Health returns the health of the parts that Fleet needs. It calls the store, but no place, so it reports the last known health of
// places.
func (ps *Places) Health(ctx context.Context) fleet.Health {
	ctx, cancel := context.WithTimeout(ctx, ps.cfg.ProbeTimeout)
	defer cancel()
	h, anyListed := fleet.Health{}, false
	add := func(part string, since time.Time, reason string) {
		h.Degraded = append(h.Degraded, fleet.DegradedPart{Part: part, Since: since, Reason: reason})
	}
	for _, p := range ps.Fleet {
		listedAt, err := p.syncListedAt(ctx)
		if err != nil {
			recordFailure(&ps.storeFailure, fleet.Errorf(fleet.ReasonBackendUnavailable, "the store cannot be read"), ps.cfg.Time())
			if f := ps.storeFailure.Load(); f != nil {
				add(partStore, f.since, f.err.Message)
			}
			return h
		}
		ps.storeFailure.Store(nil)
		hasListing := !listedAt.IsZero() || p.HasListing()
		anyListed = anyListed || hasListing
		sinceListing := ps.cfg.Time().Sub(later(p.ObservedAt(), ps.started))
		switch f := p.listingFailure.Load(); {
		case f != nil:
			add(p.Name, f.since, f.err.Message)
		case !hasListing:
			add(p.Name, ps.started, "it has not listed all its agents yet")
		case sinceListing > max(stalePolls*p.Interval, p.places.cfg.ListingGap):
			add(partPoll, ps.cfg.Time().Add(-sinceListing), fmt.Sprintf("the agents of %s were last listed %s ago", p.Name, sinceListing.Round(time.Second)))
		}
	}
	writable := ps.probe.check(ctx, ps.store, ps.cfg)
	h.Ready = anyListed && writable
	if since := ps.shutdownAt.Load(); since != nil {
		h.Ready = false
		add(partServer, *since, "it is shutting down")
	}
	for _, d := range []struct {
		part string
		*failure
	}{{partStore, ps.probe.store.Load()}, {partSchema, ps.probe.schema.Load()}, {partLeases, ps.leaseFailure.Load()}} {
		if d.failure != nil {
			add(d.part, d.since, d.err.Message)
		}
	}
	if since, full := ps.store.Full(); full {
		add(partDisk, since, "the disk of the store is full: new agents, tasks and output are refused; agents and tasks can be stopped and deleted")
	}
	if ps.cfg.DegradedParts != nil {
		h.Degraded = append(h.Degraded, ps.cfg.DegradedParts()...)
	}
	return h
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// RecordLeaseRenewal records whether this server could renew its leases.
func (ps *Places) RecordLeaseRenewal(err error) {
	defer ps.changed.Notify()
	if err == nil {
		ps.leaseFailure.Store(nil)
		return
	}
	recordFailure(&ps.leaseFailure, unavailable("leases cannot be renewed, so other servers may take over the agents of this one"), ps.cfg.Time())
}
