package fleet

import (
	"fmt"
	"strconv"
)

// Limits limit what one principal may have. 0 means no limit.
type Limits struct {
	// Agents limits the existing agents of all toolsets.
	Agents int `yaml:"agents"`
	// RunningTasks limits the tasks of all toolsets that have not ended.
	RunningTasks int `yaml:"running_tasks"`
	// StoredBytes limits the size of descriptions, summaries, output and payloads before compression. Running tasks may
	// exceed it; no new one starts until something is deleted or its retention ends.
	StoredBytes int64 `yaml:"stored_bytes"`
}

// Validate returns an error if a limit is negative.
func (l Limits) Validate() error {
	for key, n := range map[string]int64{"agents": int64(l.Agents), "running_tasks": int64(l.RunningTasks), "stored_bytes": l.StoredBytes} {
		if n < 0 {
			return fmt.Errorf("limits.%s is %d: use 0 for no limit, or a positive number", key, n)
		}
	}
	return nil
}

// Holdings is what one owner has in the store.
type Holdings struct {
	Agents       map[Toolset]int // existing agents by toolset
	RunningTasks int             // tasks that have not ended
	StoredBytes  int64           // see Limits
}

// AllAgents returns the number of agents of all toolsets.
func (h Holdings) AllAgents() (n int) {
	for _, m := range h.Agents {
		n += m
	}
	return n
}

// more is what a call adds to its caller's holdings.
type more struct{ agents, tasks, bytes int }

// admit returns LIMIT_REACHED if the owner would exceed a limit with what m adds. Call it in the transaction that adds it.
func (l Limits) admit(tx ReadTx, owner string, m more) error {
	if l == (Limits{}) {
		return nil
	}
	h, err := tx.Holdings(owner)
	if err != nil {
		return err
	}
	switch {
	case m.agents > 0 && l.Agents > 0 && h.AllAgents()+m.agents > l.Agents:
		return LimitReached("limits.agents", int64(h.AllAgents()), int64(l.Agents), "agents", "delete one with delete_agent")
	case m.tasks > 0 && l.RunningTasks > 0 && h.RunningTasks+m.tasks > l.RunningTasks:
		return LimitReached("limits.running_tasks", int64(h.RunningTasks), int64(l.RunningTasks), "running tasks", "wait for one to end with wait_tasks")
	case m.tasks+m.bytes > 0 && l.StoredBytes > 0 && h.StoredBytes+int64(max(m.bytes, 1)) > l.StoredBytes:
		return LimitReached("limits.stored_bytes", h.StoredBytes, l.StoredBytes, "bytes stored", "delete tasks that you no longer need with delete_task")
	}
	return nil
}

// LimitReached returns the error of a caller who has used all, or nearly all, of the limit with the setting key. what
// names the counted things, and next says what the caller can do.
func LimitReached(key string, used, most int64, what, next string) *Error {
	return Errorf(ReasonLimitReached, "you have %d %s and the limit is %d: %s, or ask the operator to raise %s", used, what, most, next, key).
		With("limit", key).With("used", strconv.FormatInt(used, 10)).With("max", strconv.FormatInt(most, 10))
}
