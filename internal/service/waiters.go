package service

import (
	"context"
	"time"
)

// waitLeasePrefix begins the keys of leases that mark tasks for which a process has waiting callers. The task's id, a slash and
// the name of the process follow.
const waitLeasePrefix = "wait/"

// MarkWaiting tells other processes that use the store that a caller of this process waits for the task. The mark expires after
// ttl.
func (s *Service) MarkWaiting(ctx context.Context, taskID, process string, ttl time.Duration) error {
	_, err := s.store.AcquireLease(ctx, waitLeasePrefix+taskID+"/"+process, process, ttl)
	return err
}

// UnmarkWaiting removes the process's mark, even if several of its callers wait for the task.
func (s *Service) UnmarkWaiting(ctx context.Context, taskID, process string) error {
	return s.store.ReleaseLease(ctx, waitLeasePrefix+taskID+"/"+process, process)
}

// OthersWait reports whether callers of other processes wait for the task.
func (s *Service) OthersWait(ctx context.Context, taskID, process string) (bool, error) {
	processes, err := s.store.Leases(ctx, waitLeasePrefix+taskID+"/")
	delete(processes, waitLeasePrefix+taskID+"/"+process)
	return len(processes) > 0, err
}
