package identity

import (
	"context"

	"fleet/internal/fleet"
)

// RecordSubject returns the name of the principal for a subject of another system. The first call for a subject chooses the name,
// which never changes, even if the subject is renamed, because everything in Fleet belongs to a name. No other principal gets the same
// name. See decision 039. Each call also stores the subject's groups, because limits depend on them even while the subject makes no
// call. The service implements it.
type RecordSubject func(ctx context.Context, s fleet.Subject) (principal string, err error)
