package app

import (
	"context"

	"fleet/internal/fleet"
	"fleet/internal/state"
	"fleet/internal/telemetry"
)

// startTracing begins to export traces if the options have an exporter.
func (a *App) startTracing(ctx context.Context, o Options) error {
	if o.Spans == nil {
		return nil
	}
	e, err := o.Spans(ctx)
	if err != nil || e == nil {
		return err
	}
	return a.telemetry.EnableTracing(ctx, e, a.cfg.Replica)
}

// measuredPlaces returns the places, wrapped so that telemetry measures their operations.
func (a *App) measuredPlaces(places []fleet.Place) []fleet.Place {
	out := make([]fleet.Place, len(places))
	for i, p := range places {
		out[i] = a.telemetry.Place(p)
	}
	return out
}

// metricsSources returns the sources from which telemetry reads the current values of metrics.
func (a *App) metricsSources(st *state.Fleet) telemetry.Sources {
	return telemetry.Sources{
		Store: a.store, Agents: st.Snapshot.All, Queue: a.service.QueueStats, Webhooks: a.service.WebhookStats, Places: st.Places.States, Workers: a.reconciler.Stats,
		Watchers: st.Tail.Subscribers, CallsOpen: func() int { return int(a.guard.openCalls.Load()) }, CallsWaiting: func() int { return a.slots.Waiting() },
		UnreadBytes: func() int64 { return a.interceptor.Unread() }, Now: st.Config.Now,
	}
}
