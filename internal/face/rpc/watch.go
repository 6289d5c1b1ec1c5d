package rpc

import (
	"context"
	"errors"
	"io"
	"strconv"
	"time"

	"google.golang.org/grpc"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/fleet"
	"fleet/internal/service"
)

// WatchFleet streams events.
func (f *Fleet) WatchFleet(r *fleetv1.WatchFleetRequest, s grpc.ServerStreamingServer[fleetv1.WatchFleetResponse]) error {
	q := service.WatchRequest{Cursor: r.GetCursor(), AgentName: r.GetAgentName(), TaskID: r.GetTaskId(), Selector: r.GetSelector(), Follow: r.GetFollow(), Wait: -1, Details: r.GetDetails(), Quiet: r.GetQuiet(), OutputOf: r.GetOutputOf()}
	if r.WaitSeconds != nil {
		if r.GetWaitSeconds() < 0 {
			return fleet.InvalidField("wait_seconds", "wait_seconds is %d: give 0 or more", r.GetWaitSeconds())
		}
		q.Wait = time.Duration(r.GetWaitSeconds()) * time.Second
	}
	if r.MaxEvents != nil {
		if r.GetMaxEvents() < 1 {
			return fleet.InvalidField("max_events", "max_events is %d: give 1 to %d", r.GetMaxEvents(), service.MaxWatchEvents)
		}
		q.MaxEvents = int(r.GetMaxEvents())
	}
	return f.svc.Watch(s.Context(), q, func(events []fleet.Event, cursor string) error {
		if r.GetOutputWithoutText() {
			for i := range events {
				if events[i].Type == fleet.EventTaskOutput {
					events[i].Text = ""
				}
			}
		}
		err := s.Send(&fleetv1.WatchFleetResponse{Events: eventsOf(events, r.GetDetails()), Cursor: cursor})
		if errors.Is(err, io.EOF) { // the in-process channel returns io.EOF when the caller has ended the call
			return context.Canceled
		}
		return err
	})
}

func cursorOf(seq int64) string { return strconv.FormatInt(seq, 10) }
