package fleet

import "time"

// ReplicaLeasePrefix is the prefix of the keys of the leases that servers hold while they serve; the server's name follows.
const ReplicaLeasePrefix = "server/"

// Replica is the store's record of a server. Its times are times of the store's clock.
type Replica struct {
	Name    string
	Machine string // distinguishes it from a server of the same name with another data directory
	Address string // where other servers reach it; empty if they cannot
	Version string // version of its program
	// StartedAt is the time of its first heartbeat since it started, and HeartbeatAt that of its last one.
	StartedAt, HeartbeatAt time.Time
	Stopped                bool // it has shut down in an orderly way; false after a crash
}
