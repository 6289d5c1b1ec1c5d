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

// LimitReached returns the error of a caller who has used all, or nearly all, of the limit with the setting key. what
// names the counted things, and next says what the caller can do.
func LimitReached(key string, used, most int64, what, next string) *Error {
	return Errorf(ReasonLimitReached, "you have %d %s and the limit is %d: %s, or ask the operator to raise %s", used, what, most, next, key).
		With("limit", key).With("used", strconv.FormatInt(used, 10)).With("max", strconv.FormatInt(most, 10))
}
