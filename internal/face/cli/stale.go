package cli

import (
	"fmt"

	"google.golang.org/protobuf/types/known/timestamppb"

	fleetv1 "fleet/gen/fleet/v1"
)

// observed is an answer that says when it was observed and, if it is stale, why.
type observed interface {
	GetObservedAt() *timestamppb.Timestamp
	GetStaleReason() string
}

// tellStale reports on standard error how old a stale answer is, and why it is stale.
func (s *session) tellStale(answer observed) {
	if why := answer.GetStaleReason(); why != "" {
		s.screen.line(fmt.Sprintf("fleet: this answer is %s old: %s", s.age(answer.GetObservedAt()), printable(why)))
	}
}

// tellPlaces reports on standard error which of several places do not answer, and why. For one place it does the same
// as tellStale.
func (s *session) tellPlaces(answer interface {
	observed
	GetPlaces() []*fleetv1.PlaceStatus
},
) {
	if len(answer.GetPlaces()) < 2 {
		s.tellStale(answer)
		return
	}
	for _, p := range answer.GetPlaces() {
		switch {
		case p.GetOk():
		case p.GetObservedAt() == nil:
			s.screen.line(fmt.Sprintf("fleet: the agents in %s are not known yet: %s", printable(p.GetName()), printable(p.GetReason())))
		default:
			s.screen.line(fmt.Sprintf("fleet: the information about the agents in %s is %s old: %s", printable(p.GetName()), s.age(p.GetObservedAt()), printable(p.GetReason())))
		}
	}
}
