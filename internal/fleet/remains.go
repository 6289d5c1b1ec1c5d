package fleet

import "time"

// Remains describes what the store keeps of a deleted agent, in addition to its tasks.
type Remains struct {
	KeptAt   time.Time
	Size     int    // size of the bundle in bytes; 0 if there is no bundle
	Bundle   []byte // nil if it was not read
	LostWork string // describes, for people, the work that may be lost with the workspace; empty if there is none
}
