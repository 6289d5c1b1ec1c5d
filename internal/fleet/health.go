package fleet

import (
	"context"
	"fmt"
	"time"
)

// Health says whether the server can serve callers, and which parts are degraded.
type Health struct {
	// Ready is false before the first complete listing of at least one place, unless no place has agents of its own,
	// and while the store cannot be read.
	Ready    bool
	Degraded []Degraded
}

// Degraded is a part that does not work properly.
type Degraded struct {
	Part   string // "store", "disk", "poll", or the name of a place
	Since  time.Time
	Reason string // for people; contains nothing that only the operator may know
}

// These are the parts that are not places.
const (
	partStore = "store"
	partPoll  = "poll"
	partDisk  = "disk"
)

// Health reports on the parts that Fleet needs. It calls the store but no place.
func (s *Service) Health(ctx context.Context) Health {
	h := Health{}
	add := func(part string, since time.Time, reason string) {
		h.Degraded = append(h.Degraded, Degraded{part, since, reason})
	}
	for _, p := range s.places {
		at, err := p.noted(ctx)
		if err != nil {
			fail(&s.unread, Errorf(ReasonBackendUnavailable, "the store cannot be read"), s.now())
			if o := s.unread.Load(); o != nil {
				h.Ready = false
				add(partStore, o.since, o.err.Message)
			}
			return h
		}
		s.unread.Store(nil)
		known := !at.IsZero() || p.isKnown()
		h.Ready = h.Ready || known
		late := s.now().Sub(maxTime(p.observedAt(), s.begun))
		switch o := p.unlisted.Load(); {
		case o != nil:
			add(p.name, o.since, o.err.Message)
		case !known:
			add(p.name, s.begun, "it has not listed all its agents yet")
		case late > stalePolls*p.every:
			add(partPoll, s.now().Add(-late), fmt.Sprintf("%s was last asked for its agents %s ago", p.name, late.Round(time.Second)))
		}
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
