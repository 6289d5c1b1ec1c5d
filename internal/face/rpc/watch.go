package rpc

import (
	"strconv"
	"time"

	"google.golang.org/grpc"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/fleet"
	"fleet/internal/service"
)

// WatchFleet streams the matching events after the request's cursor. With follow, it also waits for new ones.
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
		return s.Send(&fleetv1.WatchFleetResponse{Events: eventsOf(events, r.GetDetails()), Cursor: cursor})
	})
}

// cursorOf returns the cursor of the event or the step with the sequence number.
func cursorOf(seq int64) string { return strconv.FormatInt(seq, 10) }
