package rpc

import (
	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/fleet"
)

// eventsOf converts events. If details is true, the events of steps contain the steps.
func eventsOf(es []fleet.Event, details bool) []*fleetv1.Event {
	out := make([]*fleetv1.Event, len(es))
	for i, e := range es {
		out[i] = &fleetv1.Event{
			Cursor: cursorOf(e.Seq), Time: timeOf(e.Time), Type: fleetv1.Event_Type(fleetv1.Event_Type_value[string(e.Type)]),
			AgentName: e.AgentName, TaskId: e.TaskID, Text: e.Text, Status: e.Status, Owner: e.Owner,
		}
		if e.Type != fleet.EventTaskOutput { // the runner has repaired the text of output
			out[i].Text = textOf(e.Text)
		}
		if s := e.Step(); details && s != nil {
			out[i].Step = stepOf(fleet.TaskStep{Seq: e.Seq, Time: e.Time, Text: e.Text, Step: s})
		}
	}
	return out
}
