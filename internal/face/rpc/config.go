package rpc

import (
	"context"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/fleet"
)

// ReloadConfig reads the server's configuration again.
func (f *Fleet) ReloadConfig(ctx context.Context, _ *fleetv1.ReloadConfigRequest) (*fleetv1.ReloadConfigResponse, error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, err
	}
	reloaded, err := f.svc.ReloadConfig(ctx)
	if err != nil {
		return nil, err
	}
	resp := &fleetv1.ReloadConfigResponse{Changes: reloaded.Changes, File: reloaded.File, Message: reloaded.Message()}
	for _, a := range reloaded.Closed {
		name := a.Name
		if a.Owner != p.Name {
			name += "@" + a.Owner
		}
		resp.ClosedAgents = append(resp.ClosedAgents, name)
	}
	return resp, nil
}
