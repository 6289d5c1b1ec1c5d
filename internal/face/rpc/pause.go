package rpc

import (
	"context"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/fleet"
)

// PauseFleet keeps tasks from starting until ResumeFleet. Running tasks go on.
func (f *Fleet) PauseFleet(ctx context.Context, r *fleetv1.PauseFleetRequest) (*fleetv1.PauseFleetResponse, error) {
	p, err := f.svc.PauseFleet(ctx, r.GetReason())
	if err != nil {
		return nil, err
	}
	return &fleetv1.PauseFleetResponse{Paused: pauseOf(p), Message: "The fleet is paused: no task starts, and running tasks go on"}, nil
}

// ResumeFleet lets tasks start again.
func (f *Fleet) ResumeFleet(ctx context.Context, _ *fleetv1.ResumeFleetRequest) (*fleetv1.ResumeFleetResponse, error) {
	pause, err := f.svc.ResumeFleet(ctx)
	if err != nil {
		return nil, err
	}
	resp := &fleetv1.ResumeFleetResponse{Message: "The fleet is resumed: tasks start again"}
	if pause == nil {
		resp.Message = "The fleet was not paused"
	}
	return resp, nil
}

// pauseOf returns nil if the fleet is not paused.
func pauseOf(p *fleet.Pause) *fleetv1.Pause {
	if p == nil {
		return nil
	}
	return &fleetv1.Pause{By: p.By, Reason: textOf(p.Reason), At: timeOf(p.At)}
}
