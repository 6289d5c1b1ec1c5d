package providers

import (
	"time"

	"fleet/internal/fleet"
)

// admit returns LIMIT_REACHED if the principal has too many requests under way, or has begun too many in the last minute. It
// counts the tasks of the requests in the store, so the limits hold for all servers together.
func (s *Service) admit(tx fleet.Tx, principal string) error {
	// Nobody else begins requests of the principal until the transaction ends, if there are nearly as many agents as allowed.
	// A request has an agent, so otherwise there are fewer requests too.
	if _, err := tx.OwnAgents(principal, fleet.ToolsetProviders, s.cfg.MaxConcurrent); err != nil {
		return err
	}
	mine := fleet.TaskFilter{Owner: principal, Toolset: new(fleet.ToolsetProviders), Status: fleet.TaskRunning}
	running, err := tx.FindTasks(mine, fleet.TaskWindow{Count: s.cfg.MaxConcurrent})
	if err != nil {
		return err
	}
	if have, most := running.Total, s.cfg.MaxConcurrent; have >= most {
		return fleet.Errorf(fleet.ReasonLimitReached, "you have %d requests to agents under way, and the limit is %d: wait until a request has ended",
			have, most).AtLimit("concurrent requests", int64(have), int64(most)).After(fleet.BusyRetry)
	}
	now, most := s.cfg.Now(), s.cfg.PerMinute
	mine.Status, mine.Since = "", now.Add(-time.Minute)
	begun, err := tx.FindTasks(mine, fleet.TaskWindow{Offset: most - 1, Limit: 1})
	if err != nil || len(begun.Tasks) == 0 {
		return err
	}
	return fleet.Errorf(fleet.ReasonLimitReached, "you have begun %d requests to agents in the last minute, and the limit is %[1]d: try again later",
		most).AtLimit("requests per minute", int64(most), int64(most)).After(begun.Tasks[0].CreatedAt.Add(time.Minute).Sub(now))
}
