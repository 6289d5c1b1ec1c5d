package local

import (
	"context"

	"fleet/internal/fleet"
	"fleet/internal/runner"
)

// Log implements fleet.Place.
func (b *Place) Log(ctx context.Context, a fleet.Agent, n int) ([]string, bool, error) {
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	return runner.Home(b.home(a.UID)).Log(n)
}
