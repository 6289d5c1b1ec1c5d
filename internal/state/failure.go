package state

import (
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"fleet/internal/fleet"
)

// failure is the error of a place, or of the store, that did not answer.
type failure struct {
	err   *fleet.Error
	at    time.Time // of the last failure
	since time.Time // of the first failure after the last success
}

// recordFailure records a failure and reports whether it is the first after a success.
func recordFailure(f *atomic.Pointer[failure], e *fleet.Error, now time.Time) bool {
	next := &failure{e, now, now}
	if old := f.Load(); old != nil {
		next.since = old.since
	}
	return f.Swap(next) == nil
}

// recordAnswer records the result of a call that the place itself answers: a listing of workspaces or of projects. The place has not
// answered if err is BACKEND_UNAVAILABLE. Other errors change nothing. Do not call recordAnswer with an error of one agent's
// workspace. Such an error says nothing about the place, and owners of other agents must not see it.
func (p *ManagedPlace) recordAnswer(err error) {
	e, ok := errors.AsType[*fleet.Error](err)
	switch {
	case err == nil:
		if f := p.callFailure.Swap(nil); f != nil {
			p.places.cfg.Logger.Info("place answers again", slog.String("place", p.Name), slog.Duration("after", p.now().Sub(f.since)))
		}
	case ok && e.Reason == fleet.ReasonBackendUnavailable:
		if recordFailure(&p.callFailure, e, p.now()) {
			p.places.cfg.Logger.Warn("place does not answer", slog.String("place", p.Name), slog.Any("error", err))
		}
	}
	p.places.changed.Notify()
}

// Available returns the error of the place's last call if the place did not answer it, so that a caller who requests a change
// gets the error at once. It returns nil if that failure is old.
func (p *ManagedPlace) Available() error {
	f := p.callFailure.Load()
	if f == nil || p.now().Sub(f.at) > max(stalePolls*p.Interval, defaultListingGap) {
		return nil
	}
	c := *f.err
	if c.RetryAfter == 0 {
		c.RetryAfter = p.Interval
	}
	return &c
}
