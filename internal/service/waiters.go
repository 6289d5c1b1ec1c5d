package service

import (
	"context"
	"time"
)

// waitLease is the prefix of the keys of leases that say that a caller of a process waits for a task. The task's id, a slash
// and the name of the process follow.
const waitLease = "wait/"

// MarkWaiting makes it known to other processes on the store that a caller of the process waits for the task, at most for ttl.
func (s *Service) MarkWaiting(ctx context.Context, taskID, process string, ttl time.Duration) error {
	_, err := s.store.Lease(ctx, waitLease+taskID+"/"+process, process, ttl)
	return err
}

// UnmarkWaiting undoes MarkWaiting.
func (s *Service) UnmarkWaiting(ctx context.Context, taskID, process string) error {
	return s.store.Release(ctx, waitLease+taskID+"/"+process, process)
}

// OthersWait reports whether callers of other processes wait for the task.
func (s *Service) OthersWait(ctx context.Context, taskID, process string) (bool, error) {
	processes, err := s.store.Leases(ctx, waitLease+taskID+"/")
	delete(processes, waitLease+taskID+"/"+process)
	return len(processes) > 0, err
}
