package identity

import (
	"context"

	"fleet/internal/fleet"
)

// NameOf returns the name of the principal for a subject of another system. The name never changes, even if the subject is
// renamed, because everything in Fleet belongs to a name. No other principal gets the same name. See decision 039. NameOf also
// stores the subject's groups, because limits depend on them even while the subject makes no call. The service implements it.
type NameOf func(ctx context.Context, s fleet.Subject) (string, error)
