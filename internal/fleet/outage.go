package fleet

import (
	"errors"
	"log/slog"
	"sync/atomic"
	"time"
)

// outage is the error of a place, or of the store, that did not answer.
type outage struct {
	err   *Error
	at    time.Time // of the last failure
	since time.Time // of the first consecutive failure
}

// fail records a failure and reports whether it is the first consecutive one.
func fail(o *atomic.Pointer[outage], e *Error, now time.Time) bool {
	next := &outage{e, now, now}
	if old := o.Load(); old != nil {
		next.since = old.since
	}
	return o.Swap(next) == nil
}

// reached records whether the place answered a call that the place itself answers, not one of its agents.
func (p *managedPlace) reached(err error) {
	e, ok := errors.AsType[*Error](err)
	switch {
	case err == nil:
		p.down.Store(nil)
	case ok && e.Reason == ReasonBackendUnavailable:
		if fail(&p.down, e, p.now()) {
			p.log.Warn("place does not answer", slog.String("place", p.name), slog.Any("error", err))
		}
	}
}

// available returns the error of a place that did not answer recently, so that a caller who wants something done is
// told at once. Old failures do not count.
func (p *managedPlace) available() error {
	o := p.down.Load()
	if o == nil || p.now().Sub(o.at) > max(stalePolls*p.every, leastPause) {
		return nil
	}
	c := *o.err
	if c.RetryAfter == 0 {
		c.RetryAfter = p.every
	}
	return &c
}
