package identity

import (
	"context"

	"fleet/internal/fleet"
)

// Names gives subjects the names of their principals. The service implements it.
type Names interface {
	// NameOf returns the name of the subject's principal. It is the same for all time, also when the subject's own name
	// changes, because everything in Fleet belongs to a name; and no other principal has it. See decision 039.
	// It keeps the subject's groups, which limits are looked up by also when the subject does not call.
	NameOf(ctx context.Context, s fleet.Subject) (string, error)
}
