package record

import (
	"math"
	"reflect"
	"time"

	"fleet/internal/fleet"
)

// UsageDays selects sums of ended tasks by the day on which the tasks were created. Days are counted from 1970.
type UsageDays struct {
	First, End     int64  // First is the first day, and End is the day after the last day
	Owner, Project string // "" for all
}

// UsageTasks selects tasks whose usage is added if Sign is 1, or subtracted if Sign is -1.
type UsageTasks struct {
	Sign        int
	Filter      fleet.TaskFilter
	Status      string   // ActiveCondition or EndedCondition; "" selects both
	Agents      []string // UIDs of the agents whose tasks are selected; empty selects tasks of all agents
	ExceptOwner string   // the owner whose tasks are left out; "" leaves out none
}

// UsageParts returns the parts whose sum is the usage of the tasks of the filter. These are sums of whole days, tasks
// to add because the days do not include them, and tasks to subtract because the days include too many. If sums by day
// are not enough for the filter or the key, days is empty.
func UsageParts(f fleet.TaskFilter, by fleet.UsageKey) (days []UsageDays, tasks []UsageTasks) {
	shared, span := f.SharedUIDs, fleet.TaskFilter{Owner: f.Owner, Project: f.Project, Since: f.Since, Until: f.Until}
	f.SharedUIDs = nil
	if len(f.Projects) == 0 {
		f.Projects = nil // for DeepEqual, an empty list differs from nil
	}
	if by == fleet.UsageByAgent || !reflect.DeepEqual(f, span) {
		f.SharedUIDs = shared
		return nil, []UsageTasks{{Sign: 1, Filter: f}}
	}
	tasks = append(tasks, UsageTasks{Sign: 1, Filter: span, Status: ActiveCondition})
	first, end := int64(math.MinInt32), int64(math.MaxInt32)
	if !f.Since.IsZero() {
		var at time.Time
		first, at = nearestDay(f.Since)
		tasks = appendBetween(tasks, span, f.Since, at)
	}
	if !f.Until.IsZero() {
		var at time.Time
		end, at = nearestDay(f.Until)
		tasks = appendBetween(tasks, span, at, f.Until)
	}
	if len(shared) > 0 && f.Owner != "" {
		ofOthers := span
		ofOthers.Owner = ""
		tasks = append(tasks, UsageTasks{Sign: 1, Filter: ofOthers, Agents: shared, ExceptOwner: f.Owner})
	}
	return []UsageDays{{First: first, End: end, Owner: f.Owner, Project: f.Project}}, tasks
}

// nearestDay returns the number of the day that begins nearest to the time, and when that day begins.
func nearestDay(t time.Time) (number int64, begins time.Time) {
	const day = 24 * time.Hour
	begins = t.UTC().Round(day)
	return begins.Unix() / int64(day/time.Second), begins
}

// appendBetween appends the part for the ended tasks of the filter between two times. If to is before from, the part subtracts
// these tasks.
func appendBetween(tasks []UsageTasks, f fleet.TaskFilter, from, to time.Time) []UsageTasks {
	switch {
	case from.Before(to):
		f.Since, f.Until = from, to
		return append(tasks, UsageTasks{Sign: 1, Filter: f, Status: EndedCondition})
	case to.Before(from):
		f.Since, f.Until = to, from
		return append(tasks, UsageTasks{Sign: -1, Filter: f, Status: EndedCondition})
	}
	return tasks
}

// ScanUsage returns the usage of a row. The first column is 1 in the row with the sum of all keys, whose key is empty, and 0
// in all other rows. The other numbers are floating point. The cost is in billionths of a dollar, and the time in microseconds.
func ScanUsage(row Scanner) (u fleet.UsageRow, err error) {
	var whole int
	var tasks, completed, failed, stopped, cost, in, out, calls, took float64
	err = row.Scan(&whole, &u.Key, &u.Owner, &tasks, &completed, &failed, &stopped, &cost, &in, &out, &calls, &took)
	u.Tasks, u.Completed, u.Failed, u.Stopped, u.CostUSD = int(tasks), int(completed), int(failed), int(stopped), cost/1e9
	u.InputTokens, u.OutputTokens, u.ToolCalls = int64(in), int64(out), int64(calls)
	u.Took = time.Duration(took) * time.Microsecond
	return u, err
}
