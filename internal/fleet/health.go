package fleet

import "time"

// Health says whether the server can serve callers, and which parts are degraded.
type Health struct {
	// Ready is false while the store cannot be read or written, and while the server shuts down. It is also false until at least
	// one place has listed all its workspaces. A place that does not adopt workspaces needs no listing.
	Ready    bool
	Degraded []DegradedPart
}

// DegradedPart is a part of the server, or a place, that does not work properly.
type DegradedPart struct {
	Part   string // "store", "disk", "schema", "leases", "poll", "server", "oidc", or the name of a place
	Since  time.Time
	Reason string // for people; contains nothing that only the operator may know
}
