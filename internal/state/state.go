package state

import (
	"log/slog"

	"fleet/internal/fleet"
)

// Fleet is the state that the service and the reconciler of one process share: the store, the places with their health, the
// snapshot of the store, and the configuration.
type Fleet struct {
	Store      fleet.Store
	Config     Config // with its defaults
	Log        *slog.Logger
	Places     *Places
	Snapshot   *Snapshot
	LeaseOwner string // the owner of the leases of this process's workers
	// Interrupts passes requests of the service to the reconciler without the store.
	Interrupts *Interrupts
	Tail       *LogTail
	Queue      *Queue
}

// New returns the state for the store and the places of the fleet's agents. There must be at least one place. New starts no
// background work.
func New(store fleet.Store, places []fleet.Place, cfg Config) *Fleet {
	cfg = cfg.withDefaults()
	if cfg.Now == nil {
		cfg.Now = store.Now
	}
	lastSeq, leaseOwner := newLastSeqReader(store), cfg.NewID()
	return &Fleet{
		Store: store, Config: cfg, Log: cfg.Logger, Places: newPlaces(store, places, cfg), Snapshot: newSnapshot(store, lastSeq, leaseOwner), LeaseOwner: leaseOwner,
		Tail: &LogTail{store: store, lastSeq: lastSeq}, Interrupts: newInterrupts(), Queue: &Queue{store: store},
	}
}
