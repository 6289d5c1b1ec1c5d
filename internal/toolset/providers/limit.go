package providers

import (
	"time"

	"fleet/internal/fleet"
)

// admit returns LIMIT_REACHED if the principal has too many requests under way, or has begun too many in the last minute. It
// counts the tasks of the requests in the store, so the limits hold for all servers together.
func (s *Service) admit(tx fleet.Tx, principal string) error {
	h, err := tx.Holdings(principal, fleet.Limits{}, fleet.HoldingsScope{Toolset: new(fleet.ToolsetProviders), Exclusive: true})
	if err != nil {
		return err
	}
	now, filter := s.cfg.Now(), fleet.TaskFilter{Owner: principal, Toolset: new(fleet.ToolsetProviders)}
	if limit := s.cfg.MaxConcurrent; h.AllAgents() >= limit { // some of the agents may be about to be deleted
		runningFilter := filter
		runningFilter.Status, runningFilter.Since = fleet.TaskRunning, now.Add(-MaxTimeout-time.Minute) // older tasks were left by a server that no longer runs
		running, err := tx.FindTasks(runningFilter, fleet.TaskWindow{Count: limit})
		if err != nil {
			return err
		}
		if running.Total >= limit {
			return fleet.Errorf(fleet.ReasonLimitReached, "you have %d requests to agents under way, and the limit is %[1]d: wait until a request has ended",
				limit).AtLimit("concurrent requests", int64(limit), int64(limit)).After(fleet.BusyRetryAfter)
		}
	}
	limit := s.cfg.PerMinute
	filter.Since = now.Add(-time.Minute + time.Microsecond)
	recent, err := tx.FindTasks(filter, fleet.TaskWindow{Offset: limit - 1, Limit: 1})
	if err != nil || len(recent.Tasks) == 0 {
		return err
	}
	return fleet.Errorf(fleet.ReasonLimitReached, "you have begun %d requests to agents in the last minute, and the limit is %[1]d: try again later",
		limit).AtLimit("requests per minute", int64(limit), int64(limit)).After(recent.Tasks[0].CreatedAt.Add(time.Minute).Sub(now))
}
