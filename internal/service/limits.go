package service

import (
	"fleet/internal/fleet"
)

// increase is what a call adds to its caller's holdings.
type increase struct{ agents, tasks, bytes int }

// admit returns LIMIT_REACHED if the owner would exceed a limit with what m adds. Call it in the transaction that adds it.
func admit(l fleet.Limits, tx fleet.ReadTx, owner string, m increase) error {
	l = l.For(owner)
	if l.Agents == 0 && l.RunningTasks == 0 && l.StoredBytes == 0 {
		return nil
	}
	h, err := tx.Holdings(owner)
	if err != nil {
		return err
	}
	switch {
	case m.agents > 0 && l.Agents > 0 && h.AllAgents()+m.agents > l.Agents:
		return fleet.LimitReached("limits.agents", int64(h.AllAgents()), int64(l.Agents), "agents", "delete one with delete_agent")
	case m.tasks > 0 && l.RunningTasks > 0 && h.RunningTasks+m.tasks > l.RunningTasks:
		return fleet.LimitReached("limits.running_tasks", int64(h.RunningTasks), int64(l.RunningTasks), "running tasks", "wait for one to end with wait_tasks")
	case m.tasks+m.bytes > 0 && l.StoredBytes > 0 && h.StoredBytes+int64(max(m.bytes, 1)) > l.StoredBytes:
		return fleet.LimitReached("limits.stored_bytes", h.StoredBytes, l.StoredBytes, "bytes stored", "delete tasks that you no longer need with delete_task")
	}
	return nil
}
