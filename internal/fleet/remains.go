package fleet

import (
	"time"
)

// Remains is what is kept of an agent when it is deleted, beside its tasks.
type Remains struct {
	KeptAt time.Time
	Size   int    // of the bundle, in bytes; 0: there is none
	Lost   string // what may be lost with the workspace, in words; empty: nothing
}
