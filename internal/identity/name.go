package identity

import (
	"context"

	"fleet/internal/fleet"
)

// Names assigns names of principals to subjects of other systems. The service implements it.
type Names interface {
	// NameOf returns the name of the subject's principal. The name never changes, even if the subject is renamed, because
	// everything in Fleet belongs to a name. No other principal gets the same name. See decision 039.
	// NameOf also stores the subject's groups, because limits depend on them even while the subject makes no call.
	NameOf(ctx context.Context, s fleet.Subject) (string, error)
}
