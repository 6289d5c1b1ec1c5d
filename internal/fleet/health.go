package fleet

import (
	"context"
	"fmt"
	"time"
)

// Health says whether callers can be served, and what does not work as it should.
type Health struct {
	// Ready is false before the first complete listing of a backend that has agents of its own, and while the store
	// cannot be read.
	Ready    bool
	Degraded []Degraded
}

// Degraded is a part that does not work as it should.
type Degraded struct {
	Part   string // "store", "disk", "poll", or the name of the backend
	Since  time.Time
	Reason string // for people; it tells nothing that is for the operator only
}

// Names of the parts that are not backends.
const (
	partStore = "store"
	partPoll  = "poll"
	partDisk  = "disk"
)

// Health reports on the parts that Fleet needs. It asks the store, and no backend.
func (s *Service) Health(ctx context.Context) Health {
	h := Health{Ready: true}
	add := func(part string, since time.Time, reason string) {
		h.Degraded = append(h.Degraded, Degraded{part, since, reason})
	}
	at, err := s.noted(ctx)
	if err != nil {
		s.fail(&s.unread, Errorf(ReasonBackendUnavailable, "the store cannot be read"))
		if o := s.unread.Load(); o != nil {
			h.Ready = false
			add(partStore, o.since, o.err.Message)
		}
		return h
	}
	s.unread.Store(nil)
	h.Ready = !s.traits.Adopts || !at.IsZero() || s.observed.Load() != 0
	late := s.now().Sub(maxTime(s.ObservedAt(), s.begun))
	switch o := s.unlisted.Load(); {
	case o != nil:
		add(s.traits.Name, o.since, o.err.Message)
	case !h.Ready:
		add(s.traits.Name, s.begun, "it has not listed all its agents yet")
	case late > stalePolls*s.cfg.PollInterval:
		add(partPoll, s.now().Add(-late), fmt.Sprintf("%s was last asked for its agents %s ago", s.traits.Name, late.Round(time.Second)))
	}
	if since, full := s.store.Full(); full {
		add(partDisk, since, "the disk of the store is full: new agents, tasks and output are refused; agents and tasks can be stopped and deleted")
	}
	return h
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
