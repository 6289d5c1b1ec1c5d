package local

import (
	"context"

	"fleet/internal/fleet"
	"fleet/internal/runner"
)

// Log implements fleet.Place.
func (p *Place) Log(ctx context.Context, a fleet.Agent, n int) ([]string, bool, error) {
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	return runner.Home(p.home(a.UID)).Log(n)
}
