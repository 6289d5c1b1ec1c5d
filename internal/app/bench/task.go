package main

import (
	"context"
	"fmt"

	fleetv1 "fleet/gen/fleet/v1"
)

// taskRows are what hands a task to an agent and waits for its end. The fake agent is done at once, so what is measured
// is what the fleet does around a task: its commits, the reconciler, and how soon a caller that waits hears of it.
func taskRows(ctx context.Context, t *testbed) []*row {
	ctx = t.outgoing(ctx)
	return []*row{{name: "tasks over gRPC", call: func(client int) error {
		r, err := t.fleet.StartAgentTask(ctx, &fleetv1.StartAgentTaskRequest{AgentName: t.idle[client], TaskDescription: "Say hello."})
		if err != nil {
			return err
		}
		w, err := t.fleet.WaitTasks(ctx, &fleetv1.WaitTasksRequest{TaskIds: []string{r.GetTask().GetId()}})
		if err == nil && (len(w.GetTasks()) != 1 || w.GetTasks()[0].GetStatus() != fleetv1.Task_completed) {
			err = fmt.Errorf("a task did not complete: %s", w)
		}
		return err
	}}}
}
