package rpc

import (
	"context"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/fleet"
)

// ReloadConfig reads the server's configuration again, and says which settings have changed.
func (f *Fleet) ReloadConfig(ctx context.Context, _ *fleetv1.ReloadConfigRequest) (*fleetv1.ReloadConfigResponse, error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, err
	}
	reloaded, err := f.svc.ReloadConfig(ctx)
	if err != nil {
		return nil, err
	}
	return &fleetv1.ReloadConfigResponse{Changes: reloaded.Changes, File: reloaded.File, Message: reloaded.Message(), ClosedAgents: listOf(reloaded.ClosedAgents, agentRefFor(p))}, nil
}
