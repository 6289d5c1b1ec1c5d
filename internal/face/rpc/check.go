package rpc

import (
	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/fleet"
)

// checksIn returns the checks of the request.
func checksIn(r *fleetv1.StartAgentTaskRequest) fleet.Checks {
	return fleet.Checks{Commands: r.GetChecks(), Timeout: timeLimitIn(r.CheckTimeoutSeconds), Retries: intIn(r.Retries)}
}

func checksOf(c *fleet.TaskChecks) *fleetv1.TaskChecks {
	if c == nil {
		return nil
	}
	return &fleetv1.TaskChecks{Tries: int32Of(c.Try + 1), Results: listOf(c.Results, checkOf)}
}

func checkOf(r fleet.CheckResult) *fleetv1.TaskCheck {
	check := &fleetv1.TaskCheck{
		Command: textOf(r.Command), Status: fleetv1.TaskCheck_Status(fleetv1.TaskCheck_Status_value[string(r.Status)]),
		Reason: optional(textOf(r.Reason)), Output: textOf(r.Output), Truncated: optional(r.Truncated), StartedAt: timeOf(r.StartedAt), EndedAt: timeOf(r.EndedAt),
	}
	if r.ExitCode != nil {
		check.ExitCode = new(int32Of(*r.ExitCode))
	}
	return check
}
