package record

import (
	"math"
	"reflect"
	"time"

	"fleet/internal/fleet"
)

// Ended is the condition of tasks that have ended.
const Ended = `status NOT IN ('pending', 'running')`

// UsageDays selects sums of the tasks that have ended, by the days on which they were created, counted from 1970.
type UsageDays struct {
	First, End     int64  // End is the day behind the last one
	Owner, Project string // "" for all
}

// UsageTasks selects tasks whose usage is added, or subtracted if Sign is -1.
type UsageTasks struct {
	Sign   int
	Filter fleet.TaskFilter
	Status string   // Active, Ended, or "" for both
	Agents []string // only of these, by uid; empty for all
	NotOf  string   // leaves out tasks of this owner; "" for none
}

// UsageParts returns what makes up the usage of the tasks of the filter: sums of whole days, and tasks that these do not have, or
// have too many. There are no days if sums by day do not have what the filter or the key asks for.
func UsageParts(f fleet.TaskFilter, by fleet.UsageKey) (days []UsageDays, tasks []UsageTasks) {
	shared, span := f.Shared, fleet.TaskFilter{Owner: f.Owner, Project: f.Project, Since: f.Since, Until: f.Until}
	if f.Shared = nil; len(f.Projects) == 0 {
		f.Projects = nil
	}
	if by == fleet.UsageByAgent || !reflect.DeepEqual(f, span) {
		f.Shared = shared
		return nil, []UsageTasks{{Sign: 1, Filter: f}}
	}
	tasks = append(tasks, UsageTasks{Sign: 1, Filter: span, Status: Active})
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
		tasks = append(tasks, UsageTasks{Sign: 1, Filter: ofOthers, Agents: shared, NotOf: f.Owner})
	}
	return []UsageDays{{First: first, End: end, Owner: f.Owner, Project: f.Project}}, tasks
}

// nearestDay returns the day that begins nearest to the time, and when it begins.
func nearestDay(t time.Time) (number int64, begins time.Time) {
	const day = 24 * time.Hour
	begins = t.UTC().Round(day)
	return begins.Unix() / int64(day/time.Second), begins
}

// appendBetween appends the ended tasks of the filter between two times. They are subtracted if the second is the earlier one.
func appendBetween(tasks []UsageTasks, f fleet.TaskFilter, from, to time.Time) []UsageTasks {
	switch f.Since, f.Until = from, to; from.Compare(to) {
	case -1:
		return append(tasks, UsageTasks{Sign: 1, Filter: f, Status: Ended})
	case 1:
		f.Since, f.Until = to, from
		return append(tasks, UsageTasks{Sign: -1, Filter: f, Status: Ended})
	}
	return tasks
}

// ScanUsage reads a row of usage. Its first column is 1 in the row with the sum of all keys, which has no key, and 0 in the others. All
// other numbers are floating point; the cost is in billionths of a dollar.
func ScanUsage(row Scanner) (u fleet.UsageRow, err error) {
	var all int
	var tasks, completed, failed, stopped, cost, in, out, calls, took float64
	err = row.Scan(&all, &u.Key, &u.Owner, &tasks, &completed, &failed, &stopped, &cost, &in, &out, &calls, &took)
	u.Tasks, u.Completed, u.Failed, u.Stopped, u.CostUSD = int(tasks), int(completed), int(failed), int(stopped), cost/1e9
	u.InputTokens, u.OutputTokens, u.ToolCalls = int64(in), int64(out), int64(calls)
	u.Took = time.Duration(took) * time.Microsecond
	return u, err
}
