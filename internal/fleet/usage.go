package fleet

import "time"

// UsageKey says what usage is summed up by.
type UsageKey string

// The keys of usage.
const (
	UsageByAgent   UsageKey = "agent"
	UsageByProject UsageKey = "project"
	UsageByOwner   UsageKey = "owner"
	UsageByDay     UsageKey = "day" // on which tasks were created, in UTC
)

// UsageRow is what the tasks of a key used.
type UsageRow struct {
	Key   string // name of the agent, project or owner, or the day as 2006-01-02
	Owner string // of the agent, if the rows are by agent

	Tasks, Completed, Failed, Stopped    int
	CostUSD                              float64
	InputTokens, OutputTokens, ToolCalls int64
	Took                                 time.Duration // of tasks that have started and ended
}
