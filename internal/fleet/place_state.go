package fleet

import "time"

// PlaceState is the state of a place.
type PlaceState struct {
	Name string
	// ObservedAt is when its workspaces were last listed completely; zero before the first complete listing.
	ObservedAt time.Time
	// Problem says why the stored states of its agents may be wrong or incomplete; empty if they are correct.
	Problem string
	// OnlyNameConflicts says that the listing is complete, and that Problem is only about workspaces with names that are taken.
	OnlyNameConflicts bool
	// StaleReason says why the last complete listing is too old; empty if it is not. A listing is too old after three poll intervals at
	// the earliest.
	StaleReason string
}
