package fleet

import "time"

// ReplicaLease is the beginning of the keys of leases that servers hold while they serve, each with its name behind it.
const ReplicaLease = "server/"

// Replica is what the store knows of a server. Its times are by the clock of the store.
type Replica struct {
	Name    string
	Machine string // tells it from a server of the same name with another data directory
	Address string // for other servers; "" if it has none
	Version string // of its program
	// StartedAt is when it was first heard since it started, and HeardAt when it was last heard.
	StartedAt, HeardAt time.Time
	Stopped            bool // it has ended by itself
}
