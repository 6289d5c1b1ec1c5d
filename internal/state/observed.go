package state

import (
	"context"
	"fmt"
	"slices"
	"time"

	"fleet/internal/fleet"
)

// firstListingWait is how long after the start calls wait for a place's first listing.
const firstListingWait = 5 * time.Second

// stalePolls is how many intervals of the poll may pass before what was listed counts as stale.
const stalePolls = 3

// ObservedAt returns when the place last listed all its workspaces; zero before the first time.
func (p *ManagedPlace) ObservedAt() time.Time {
	if ms := p.observed.Load(); ms != 0 {
		return time.UnixMilli(ms).UTC()
	}
	return time.Time{}
}

// minListingGap is how long listings may be missing in any case, unless one has failed: a busy machine delays polls.
const minListingGap = 5 * time.Second

// stale returns why observedAt is more than three polls ago; "" if it is not.
func (p *ManagedPlace) stale() string {
	at, o, limit := p.ObservedAt(), p.listingFailure.Load(), stalePolls*p.Interval
	if o == nil {
		limit = max(limit, minListingGap)
	}
	if at.IsZero() || p.now().Sub(at) <= limit {
		return ""
	}
	if o != nil {
		return o.err.Message
	}
	return fmt.Sprintf("%s was not listed since", p.Name)
}

// nameConflicts returns why workspaces of the place are not shown; "" if all are. It names none: they belong to anybody.
func (p *ManagedPlace) nameConflicts() string {
	n := p.Hidden()
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d of its workspaces are not shown, since agents of other places have their names; the server's log names them", n)
}

// lastListing reads when a process last listed everything, and takes it in. It returns the time by this process's clock.
func (p *ManagedPlace) lastListing(ctx context.Context) (time.Time, error) {
	ago, ok, err := p.store.Noted(ctx, p.PollKey())
	if err != nil || !ok {
		return time.Time{}, err
	}
	at := p.now().Add(-ago)
	if ms := at.UnixMilli(); ms > p.observed.Load() {
		p.observed.Store(ms)
		p.changed.Notify()
	}
	return at, nil
}

// IsKnown says whether all agents of the place have been listed, as far as this process has heard.
func (p *ManagedPlace) IsKnown() bool { return !p.Adopts() || p.observed.Load() != 0 }

// Known returns nil once all agents of the place have been listed, by this process or an earlier one on the store.
// Before, a place whose agents can be others than those of the store makes it BACKEND_UNAVAILABLE. Soon after the
// start it waits for the first listing.
func (p *ManagedPlace) Known(ctx context.Context) error {
	if p.IsKnown() {
		return nil
	}
	if at, err := p.lastListing(ctx); err != nil || !at.IsZero() {
		return err
	}
	if err := p.awaitListing(ctx, p.started.Add(firstListingWait).Sub(p.now())); err != nil || p.IsKnown() {
		return err
	}
	why, retry := "it is being asked", p.Interval
	if o := p.listingFailure.Load(); o != nil {
		why = o.err.Message
		if o.err.RetryAfter != 0 {
			retry = o.err.RetryAfter
		}
	}
	err := fleet.Errorf(fleet.ReasonBackendUnavailable, "the agents of %s are not known yet: %s", p.Name, why)
	err.RetryAfter = retry
	return err
}

// awaitListing waits for the end of the place's first listing, at most for the limit. It fails only if the context ends.
func (p *ManagedPlace) awaitListing(ctx context.Context, limit time.Duration) error {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	signal, cancel := p.changed.Subscribe()
	defer cancel()
	for !p.polled.Load() && limited.Err() == nil {
		fleet.ReleaseSlot(ctx)
		select {
		case <-signal:
		case <-limited.Done():
		}
	}
	return ctx.Err()
}

// Known reports whether all agents of every place have been listed, as far as this process has heard.
func (ps *Places) Known() bool {
	return !slices.ContainsFunc(ps.Fleet, func(p *ManagedPlace) bool { return !p.IsKnown() })
}

// AllKnown returns nil once all agents of every place have been listed, see known.
func (ps *Places) AllKnown(ctx context.Context) error {
	for _, p := range ps.Fleet {
		if err := p.Known(ctx); err != nil {
			return err
		}
	}
	return nil
}

// AnyKnown returns nil once all agents of at least one place have been listed, see known. It waits for the others too.
func (ps *Places) AnyKnown(ctx context.Context) error {
	var errs []error
	for _, p := range ps.Fleet {
		err := p.Known(ctx)
		if err != nil && fleet.ReasonOf(err) != fleet.ReasonBackendUnavailable {
			return err
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) < len(ps.Fleet) {
		return nil
	}
	return errs[0]
}
