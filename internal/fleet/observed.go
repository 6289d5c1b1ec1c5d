package fleet

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// firstListing is how long after the start calls wait for the backend's first listing.
const firstListing = 5 * time.Second

// stalePolls is how many intervals of the poll may pass before what was listed counts as stale.
const stalePolls = 3

// ObservedAt returns when the backend was last asked for all workspaces with success; zero before the first time.
func (s *Service) ObservedAt() time.Time {
	if ms := s.observed.Load(); ms != 0 {
		return time.UnixMilli(ms).UTC()
	}
	return time.Time{}
}

// Stale returns why ObservedAt is more than three polls ago; "" if it is not.
func (s *Service) Stale() string {
	if at := s.ObservedAt(); at.IsZero() || s.now().Sub(at) <= stalePolls*s.cfg.PollInterval {
		return ""
	}
	if o := s.unlisted.Load(); o != nil {
		return o.err.Message
	}
	return fmt.Sprintf("Fleet has not asked %s since", s.traits.Name)
}

// noted reads when a process last listed everything, and takes it in.
func (s *Service) noted(ctx context.Context) (time.Time, error) {
	at, err := s.store.Noted(ctx, s.pollKey())
	if err != nil || at.IsZero() {
		return at, err
	}
	if ms := at.UnixMilli(); ms > s.observed.Load() {
		s.observed.Store(ms)
	}
	return at, nil
}

// known returns nil once all agents of the backend have been listed, by this process or an earlier one on the store.
// Before, a backend whose agents can be others than those of the store makes it BACKEND_UNAVAILABLE. Soon after the
// start it waits for the first listing.
func (s *Service) known(ctx context.Context) error {
	if !s.traits.Adopts || s.observed.Load() != 0 {
		return nil
	}
	if at, err := s.noted(ctx); err != nil || !at.IsZero() {
		return err
	}
	if left := s.begun.Add(firstListing).Sub(s.cfg.Now()); left > 0 {
		timer := time.NewTimer(left)
		defer timer.Stop()
		select {
		case <-s.firstPoll:
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if s.observed.Load() != 0 {
		return nil
	}
	why, retry := "it is being asked", s.cfg.PollInterval
	if o := s.unlisted.Load(); o != nil {
		why = o.err.Message
		if o.err.RetryAfter != 0 {
			retry = o.err.RetryAfter
		}
	}
	err := Errorf(ReasonBackendUnavailable, "the agents of %s are not known yet: %s", s.traits.Name, why)
	err.RetryAfter = retry
	return err
}

// unlistedBecause makes err the error of a backend that did not list its workspaces, whatever its own reason is: to
// callers, a token that Coder does not accept is as bad as a Coder that is down.
func unlistedBecause(err error) *Error {
	words := Words(err)
	e, ok := errors.AsType[*Error](err)
	switch {
	case ok && e.Reason == ReasonBackendUnavailable:
		return e
	case ok:
		err = e.Cause
	}
	return Errorf(ReasonBackendUnavailable, "%s", words).Because(err)
}
