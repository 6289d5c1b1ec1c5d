package fleet

import (
	"context"
	"errors"
	"time"
)

// pollKey is the name of the polling lease of the place, and of the note of its last complete listing.
func (p *managedPlace) pollKey() string { return "poll/" + p.name }

// listingError returns the error of the last listing; nil if it succeeded.
func (p *managedPlace) listingError() error {
	if o := p.unlisted.Load(); o != nil {
		return o.err
	}
	return nil
}

// listingFailed records that the place did not list its workspaces.
func (p *managedPlace) listingFailed(err error) {
	e := listingOutage(err)
	p.reached(e)
	fail(&p.unlisted, e, p.now())
	p.polled.Do(func() { close(p.firstPoll) })
}

// listingSucceeded records that the place has listed its workspaces.
func (p *managedPlace) listingSucceeded() {
	p.reached(nil)
	p.unlisted.Store(nil)
}

// listed records that the store has everything that the place had at that time.
func (p *managedPlace) listed(ctx context.Context, at time.Time) error {
	p.observed.Store(at.UnixMilli())
	p.polled.Do(func() { close(p.firstPoll) })
	return p.store.Note(ctx, p.pollKey(), at)
}

// hidden returns how many workspaces cannot be shown because agents of other places have their names.
func (p *managedPlace) hidden() int64 { return p.concealed.Load() }

// setHidden records how many workspaces cannot be shown.
func (p *managedPlace) setHidden(n int64) { p.concealed.Store(n) }

// maxReportGap is how long the polling process may report nothing before the place counts as down. It covers the time
// for which a dead process keeps the lease.
const maxReportGap = 10 * time.Second

// syncHealth takes in what the polling process has recorded: when the place was last listed, and so whether it answers.
func (p *managedPlace) syncHealth(ctx context.Context, callTimeout time.Duration) error {
	at, err := p.lastListing(ctx)
	if err != nil || at.IsZero() {
		return err
	}
	gap := p.now().Sub(at)
	if gap > max(4*p.every, min(callTimeout, maxReportGap)) {
		p.listingFailed(Errorf(ReasonBackendUnavailable, "%s has not answered for %s", p.name, gap.Round(time.Second)))
		return nil
	}
	if o := p.down.Load(); o != nil && at.After(o.at) {
		p.reached(nil)
	}
	if o := p.unlisted.Load(); o != nil && at.After(o.at) {
		p.unlisted.Store(nil)
	}
	p.polled.Do(func() { close(p.firstPoll) })
	return nil
}

// listingOutage makes err the error of a place that did not list its workspaces, whatever its own reason is: to
// callers, a token that Coder does not accept is as bad as a Coder that is down.
func listingOutage(err error) *Error {
	words := PublicMessage(err)
	e, ok := errors.AsType[*Error](err)
	switch {
	case ok && e.Reason == ReasonBackendUnavailable:
		return e
	case ok:
		err = e.Cause
	}
	return Errorf(ReasonBackendUnavailable, "%s", words).WithCause(err)
}
