package cli

import (
	"fmt"
	"strings"

	fleetv1 "fleet/gen/fleet/v1"
)

// over reports whether a task with the status has ended.
func over(s fleetv1.Task_Status) bool {
	return s == fleetv1.Task_completed || s == fleetv1.Task_failed || s == fleetv1.Task_stopped
}

// verdict returns an error that says how the task ended, if the task failed or was stopped. Otherwise it returns nil.
func verdict(t *fleetv1.Task) error {
	f := &failure{
		hint:    fmt.Sprintf(`"fleet task show %s" tells more`, t.GetId()),
		details: map[string]any{"task_id": t.GetId(), "agent_name": t.GetAgentName(), "status": t.GetStatus().String()},
	}
	switch t.GetStatus() {
	case fleetv1.Task_failed:
		f.code, f.reason, f.message = ExitFailed, "TASK_FAILED", fmt.Sprintf("the task %s of %s failed", t.GetId(), t.GetAgentName())
	case fleetv1.Task_stopped:
		f.code, f.reason, f.message = ExitStopped, "TASK_STOPPED", fmt.Sprintf("the task %s of %s was stopped", t.GetId(), t.GetAgentName())
	default:
		return nil
	}
	if t.GetReason() != "" {
		f.message += ": " + strings.TrimSpace(t.GetReason())
	}
	return f
}

// verdict returns nil if all tasks have completed, or with --any if one has. Otherwise its error reports the first task
// that failed, or else the first that was stopped, or else the tasks that wait for an answer or still run.
func (w *waiter) verdict(resp *fleetv1.WaitTasksResponse) error {
	running, waiting := 0, 0
	var failed, stopped error
	for _, t := range resp.GetTasks() {
		switch t.GetStatus() {
		case fleetv1.Task_completed:
		case fleetv1.Task_failed:
			if failed == nil {
				failed = verdict(t)
			}
		case fleetv1.Task_stopped:
			if stopped == nil {
				stopped = verdict(t)
			}
		default:
			running++
			if t.GetWaiting() {
				waiting++
			}
		}
	}
	switch {
	case failed != nil:
		return failed
	case stopped != nil:
		return stopped
	case w.orQuestion && waiting > 0 && (!w.anyOf || running == len(resp.GetTasks())):
		return &failure{
			code: ExitTimeout, reason: "WAITING", message: fmt.Sprintf("%d of %d tasks wait for an answer", waiting, len(resp.GetTasks())),
			hint: `see "fleet questions"`, details: map[string]any{"waiting": waiting},
		}
	case !resp.GetDone():
		return &failure{
			code: ExitTimeout, reason: "TIMED_OUT", message: fmt.Sprintf("%d of %d tasks still run", running, len(resp.GetTasks())),
			hint: "the same command waits again", details: map[string]any{"running": running},
		}
	}
	return nil
}
