package state

import (
	"context"
	"errors"
	"time"

	"fleet/internal/fleet"
)

// PollKey returns the key of the place's polling lease, and of the note of its last complete listing.
func (p *ManagedPlace) PollKey() string { return "poll/" + p.Name }

// ListingError returns the error of the last listing; nil if it succeeded.
func (p *ManagedPlace) ListingError() error {
	if f := p.listingFailure.Load(); f != nil {
		return f.err
	}
	return nil
}

// RecordListingFailure records that the place did not list its workspaces.
func (p *ManagedPlace) RecordListingFailure(err error) {
	e := asListingError(err)
	p.recordAnswer(e)
	recordFailure(&p.listingFailure, e, p.now())
	p.polled.Store(true)
	p.places.changed.Notify()
}

// RecordListingSuccess records that the place has listed its workspaces.
func (p *ManagedPlace) RecordListingSuccess() {
	p.recordAnswer(nil)
	p.listingFailure.Store(nil)
	p.places.changed.Notify()
}

// RecordListingStored records that the store has all workspaces that the place had at that time. It writes the time to the store
// before this process shows it, so that the time does not go back after a restart. If the write fails, it records the time only in
// this process, and returns the error.
func (p *ManagedPlace) RecordListingStored(ctx context.Context, at time.Time) error {
	err := p.places.store.NoteDone(ctx, p.PollKey(), p.now().Sub(at))
	p.listedAt.Store(at.UnixMilli())
	p.polled.Store(true)
	p.places.changed.Notify()
	return err
}

// HiddenCount returns how many workspaces cannot be shown because agents of other places have their names.
func (p *ManagedPlace) HiddenCount() int64 { return p.hiddenCount.Load() }

// SetHiddenCount records how many workspaces cannot be shown.
func (p *ManagedPlace) SetHiddenCount(n int64) {
	if p.hiddenCount.Swap(n) != n {
		p.places.changed.Notify()
	}
}

// maxReportGap limits the time without a listing after which the place counts as down. If the call timeout is shorter, it is used
// instead. The time is at least four poll intervals. The polling lease of a dead process expires earlier, after three intervals.
const maxReportGap = 10 * time.Second

// SyncHealth reads the polling process's note of the last listing, and derives from it whether the place answers.
func (p *ManagedPlace) SyncHealth(ctx context.Context, callTimeout time.Duration) error {
	at, err := p.syncListedAt(ctx)
	if err != nil || at.IsZero() {
		return err
	}
	gap := p.now().Sub(at)
	if gap > max(4*p.Interval, min(callTimeout, maxReportGap)) {
		p.RecordListingFailure(fleet.Errorf(fleet.ReasonBackendUnavailable, "%s has not answered for %s", p.Name, gap.Round(time.Second)))
		return nil
	}
	if f := p.callFailure.Load(); f != nil && at.After(f.at) {
		p.recordAnswer(nil)
	}
	if f := p.listingFailure.Load(); f != nil && at.After(f.at) {
		p.listingFailure.Store(nil)
	}
	p.polled.Store(true)
	p.places.changed.Notify()
	return nil
}

// asListingError returns err as the error of a place that did not list its workspaces, whatever the reason of err: for
// callers, a token that Coder refuses has the same effect as a Coder that is down.
func asListingError(err error) *fleet.Error {
	message := fleet.PublicMessage(err)
	e, ok := errors.AsType[*fleet.Error](err)
	switch {
	case ok && e.Reason == fleet.ReasonBackendUnavailable:
		return e
	case ok:
		err = e.Cause
	}
	return fleet.Errorf(fleet.ReasonBackendUnavailable, "%s", message).WithCause(err)
}
