package fleet

import (
	"time"
)

// PlaceState is the state of a place.
type PlaceState struct {
	Name string
	// ObservedAt is when its workspaces were last listed completely; zero before the first time.
	ObservedAt time.Time
	// Problem says why what is known of its agents may be wrong or incomplete; empty if it is neither.
	Problem string
	// Stale says why ObservedAt is more than three polls ago; empty if it is not.
	Stale string
}
