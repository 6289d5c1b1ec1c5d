package state

import (
	"context"
	"fmt"
	"slices"
	"time"

	"fleet/internal/fleet"
)

// stalePolls is how many poll intervals may pass without a listing before the last listing counts as stale.
const stalePolls = 3

// ObservedAt returns when the place last listed all its workspaces; zero before the first time.
func (p *ManagedPlace) ObservedAt() time.Time {
	if ms := p.listedAt.Load(); ms != 0 {
		return time.UnixMilli(ms).UTC()
	}
	return time.Time{}
}

// defaultListingGap is the default of Config.ListingGap. It is much longer than a short poll interval, because a busy machine delays polls.
const defaultListingGap = 5 * time.Second

// staleReason returns why the last listing is too old; "" if it is not, or if there was no listing yet. A listing is too old after
// stalePolls poll intervals. If no listing has failed since the last one, Config.ListingGap must have passed too.
func (p *ManagedPlace) staleReason() string {
	at, f, limit := p.ObservedAt(), p.listingFailure.Load(), stalePolls*p.Interval
	if f == nil {
		limit = max(limit, p.places.cfg.ListingGap)
	}
	if at.IsZero() || p.now().Sub(at) <= limit {
		return ""
	}
	if f != nil {
		return f.err.Message
	}
	return fmt.Sprintf("%s has not been listed since then", p.Name)
}

// hiddenReason returns why workspaces of the place are not shown; "" if all are. It does not name the workspaces, because
// the reader may not be allowed to see them.
func (p *ManagedPlace) hiddenReason() string {
	n := p.HiddenCount()
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d of its workspaces are not shown, because agents of other places have the same names; the server's log names them", n)
}

// syncListedAt reads from the store when a process last listed all workspaces of the place. It updates listedAt, and returns
// the time by this process's clock; zero if no process has listed them.
func (p *ManagedPlace) syncListedAt(ctx context.Context) (time.Time, error) {
	ago, ok, err := p.places.store.LastDone(ctx, p.PollKey())
	if err != nil || !ok {
		return time.Time{}, err
	}
	at := p.now().Add(-ago)
	if ms := at.UnixMilli(); ms > p.listedAt.Load() {
		p.listedAt.Store(ms)
		p.places.changed.Notify()
	}
	return at, nil
}

// HasListing reports whether all agents of the place have been listed, as far as this process knows. A place that adopts no
// workspaces needs no listing, because the store has all its agents.
func (p *ManagedPlace) HasListing() bool { return !p.Adopts() || p.listedAt.Load() != 0 }

// EnsureListed returns nil if all agents of the place have been listed, by this or another process that uses the store, or if the
// place needs no listing (see HasListing). Otherwise the error is BACKEND_UNAVAILABLE, unless the store fails. Shortly after the
// start, EnsureListed first waits for the first listing.
func (p *ManagedPlace) EnsureListed(ctx context.Context) error {
	if p.HasListing() {
		return nil
	}
	if at, err := p.syncListedAt(ctx); err != nil || !at.IsZero() {
		return err
	}
	if err := p.awaitListing(ctx, p.places.started.Add(p.places.cfg.FirstListingWait).Sub(p.now())); err != nil || p.HasListing() {
		return err
	}
	why, retry := "it has not listed them yet", p.Interval
	if f := p.listingFailure.Load(); f != nil {
		why = f.err.Message
		if f.err.RetryAfter != 0 {
			retry = f.err.RetryAfter
		}
	}
	err := fleet.Errorf(fleet.ReasonBackendUnavailable, "the agents of %s are not known yet: %s", p.Name, why)
	err.RetryAfter = retry
	return err
}

// awaitListing waits for the end of the place's first listing, at most for the limit. It fails only if the context ends.
func (p *ManagedPlace) awaitListing(ctx context.Context, limit time.Duration) error {
	timeoutCtx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	signal, cancel := p.places.changed.Subscribe()
	defer cancel()
	for !p.polled.Load() && timeoutCtx.Err() == nil {
		fleet.ReleaseSlot(ctx)
		select {
		case <-signal:
		case <-timeoutCtx.Done():
		}
	}
	return ctx.Err()
}

// AllListed reports whether all agents of every place have been listed, as far as this process knows.
func (ps *Places) AllListed() bool {
	return !slices.ContainsFunc(ps.Fleet, func(p *ManagedPlace) bool { return !p.HasListing() })
}

// EnsureAllListed returns nil if all agents of every place have been listed. It waits as ManagedPlace.EnsureListed does, and returns the
// error of the first place whose agents are not known.
func (ps *Places) EnsureAllListed(ctx context.Context) error {
	for _, p := range ps.Fleet {
		if err := p.EnsureListed(ctx); err != nil {
			return err
		}
	}
	return nil
}

// EnsureAnyListed returns nil if all agents of at least one place have been listed. It waits for every place as ManagedPlace.EnsureListed
// does.
func (ps *Places) EnsureAnyListed(ctx context.Context) error {
	var errs []error
	for _, p := range ps.Fleet {
		err := p.EnsureListed(ctx)
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
