package cli

import (
	"fmt"

	"google.golang.org/protobuf/types/known/timestamppb"

	fleetv1 "fleet/gen/fleet/v1"
)

// observedResponse is a response that says when it was observed and, if it is stale, why.
type observedResponse interface {
	GetObservedAt() *timestamppb.Timestamp
	GetStaleReason() string
}

// reportStale reports on standard error how old a stale response is, and why it is stale. If the response is about several
// places, it does this for each place that does not answer.
func (s *session) reportStale(resp observedResponse) {
	withPlaces, _ := resp.(interface{ GetPlaces() []*fleetv1.PlaceStatus })
	if withPlaces == nil || len(withPlaces.GetPlaces()) < 2 {
		if why := resp.GetStaleReason(); why != "" {
			s.screen.printErrLine(fmt.Sprintf("fleet: this answer is %s old: %s", s.ageText(resp.GetObservedAt()), printable(why)))
		}
		return
	}
	for _, p := range withPlaces.GetPlaces() {
		switch {
		case p.GetOk():
		case p.GetObservedAt() == nil:
			s.screen.printErrLine(fmt.Sprintf("fleet: the agents in %s are not known yet: %s", printable(p.GetName()), printable(p.GetReason())))
		default:
			s.screen.printErrLine(fmt.Sprintf("fleet: the information about the agents in %s is %s old: %s", printable(p.GetName()), s.ageText(p.GetObservedAt()), printable(p.GetReason())))
		}
	}
}
