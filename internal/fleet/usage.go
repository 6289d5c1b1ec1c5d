package fleet

import "time"

// UsageKey says how usage is grouped.
type UsageKey string

// The keys of usage.
const (
	UsageByAgent   UsageKey = "agent"
	UsageByProject UsageKey = "project"
	UsageByOwner   UsageKey = "owner"
	UsageByDay     UsageKey = "day" // the day in UTC when a task was created
)

// UsageRow is the sum of the usage of the tasks with one key.
type UsageRow struct {
	Key   string // name of the agent, project or owner, or the day as 2006-01-02
	Owner string // owner of the agent; set only by UsageByAgent

	Tasks, Completed, Failed, Stopped    int
	CostUSD                              float64
	InputTokens, OutputTokens, ToolCalls int64
	Took                                 time.Duration // sum over the tasks that have started and ended
}
