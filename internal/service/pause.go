package service

import (
	"context"
	"strings"

	"fleet/internal/fleet"
)

// PauseFleet lets no task start until ResumeFleet. Running tasks go on. If the fleet is paused already, the new reason
// replaces the old one. Package admission lets only admins call it.
func (s *Service) PauseFleet(ctx context.Context, reason string) (*fleet.Pause, error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, err
	}
	pause := &fleet.Pause{By: p.Name, Reason: strings.TrimSpace(reason), At: s.now()}
	if len(pause.Reason) > fleet.MaxPauseReason {
		return nil, fleet.InvalidField("reason", "reason has %d bytes: use at most %d", len(pause.Reason), fleet.MaxPauseReason)
	}
	err = s.store.Update(ctx, func(tx fleet.Tx) error {
		if err := fleet.PutResource(tx, fleet.PauseKind, fleet.PauseName, pause); err != nil {
			return err
		}
		return tx.Append(s.newFleetEvent(pause.String()))
	})
	return pause, err
}

// ResumeFleet lets tasks start again after PauseFleet. It returns the pause that it ends; nil if the fleet was not paused. Package
// admission lets only admins call it.
func (s *Service) ResumeFleet(ctx context.Context) (pause *fleet.Pause, err error) {
	err = s.updateAs(ctx, func(tx fleet.Tx, p fleet.Principal) (err error) {
		if pause, err = fleet.ReadPause(tx); err != nil || pause == nil {
			return err
		}
		if err := tx.Delete(&fleet.Resource{Kind: fleet.PauseKind, Name: fleet.PauseName}); err != nil {
			return err
		}
		return tx.Append(s.newFleetEvent("the fleet was resumed by " + p.Name))
	})
	return pause, err
}

// newFleetEvent returns an event about the whole fleet.
func (s *Service) newFleetEvent(text string) *fleet.Event {
	return &fleet.Event{Time: s.now(), Type: fleet.EventFleetChanged, Text: text}
}
