package rpc

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/fleet"
)

func placeOf(p fleet.PlaceState) *fleetv1.PlaceStatus {
	return &fleetv1.PlaceStatus{Name: p.Name, Ok: p.Problem == "", Reason: optional(textOf(p.Problem)), ObservedAt: timeOf(p.ObservedAt)}
}

// observedOf returns when the places were last listed, which is the oldest of their times, and why the first stale place is
// stale. at is nil if no place was ever listed, and stale is nil if no place is stale.
func observedOf(places []fleet.PlaceState) (at *timestamppb.Timestamp, stale *string) {
	var oldest time.Time
	for _, p := range places {
		if !p.ObservedAt.IsZero() && (oldest.IsZero() || p.ObservedAt.Before(oldest)) {
			oldest = p.ObservedAt
		}
		why := p.StaleReason
		if why != "" && len(places) > 1 {
			why = p.Name + ": " + why
		}
		if stale == nil {
			stale = optional(textOf(why))
		}
	}
	return timeOf(oldest), stale
}
