package record

import "fleet/internal/fleet"

// maxSmallEvent is the size of the largest event that is accepted on a full disk, in bytes of its text and data.
const maxSmallEvent = 4096

// NeedsSpace reports whether the event is refused on a full disk.
func NeedsSpace(e *fleet.Event) bool {
	return e.Type == fleet.EventTaskOutput || len(e.Data)+len(e.Text) > maxSmallEvent
}
