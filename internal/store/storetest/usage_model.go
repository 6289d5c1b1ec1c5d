package storetest

import (
	"cmp"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"fleet/internal/fleet"
)

// usageModel computes the expected usage of tasks. It adds, changes and deletes tasks whose times are near
// midnight or noon.
type usageModel struct {
	t        *testing.T
	s        fleet.Store
	prefix   string // of the ids, different in each run
	agents   []*fleet.Agent
	tasks    []*fleet.Task
	nextTask int
}

func newUsageModel(t *testing.T, s fleet.Store, prefix string) *usageModel {
	m := &usageModel{t: t, s: s, prefix: prefix}
	update(t, s, func(tx fleet.Tx) error {
		m.agents = nil
		for i := range 6 {
			a := newAgent(id(prefix, i), id(prefix, i), id(prefix+"-owner", i%2))
			a.Project = []string{"", id(prefix+"-project", 1), id(prefix+"-project", 2)}[i%3]
			require.NoError(t, tx.Insert(a))
			m.agents = append(m.agents, a)
		}
		return nil
	})
	return m
}

// usageTimes draws times within two microseconds of midnight or noon.
var usageTimes = rapid.Custom(func(t *rapid.T) time.Time {
	day := noon.Truncate(24 * time.Hour)
	at := day.Add(time.Duration(rapid.IntRange(0, 6).Draw(t, "half days")) * 12 * time.Hour)
	return at.Add(time.Duration(rapid.IntRange(-2, 2).Draw(t, "microseconds")) * time.Microsecond)
})

// setRandomUsage gives the task a random usage and cost. It also sets the start and, if the task has ended, a random end.
func (*usageModel) setRandomUsage(rt *rapid.T, task *fleet.Task) {
	task.CostUSD = rapid.SampledFrom([]float64{0, 0.1, 0.2, 0.3, 1e-9, 1.0 / 3, 12.5}).Draw(rt, "cost")
	task.Usage = fleet.Usage{
		InputTokens: int64(rapid.IntRange(0, 1000).Draw(rt, "in")), OutputTokens: int64(rapid.IntRange(0, 9).Draw(rt, "out")),
		ToolCalls: rapid.IntRange(0, 3).Draw(rt, "calls"),
	}
	if task.StartedAt = task.CreatedAt; !task.Active() {
		task.EndedAt = task.StartedAt.Add(time.Duration(rapid.IntRange(0, 1e6).Draw(rt, "took")) * time.Microsecond)
	}
}

func (m *usageModel) insert(rt *rapid.T) {
	a := rapid.SampledFrom(m.agents).Draw(rt, "agent")
	task := newTask(id(m.prefix+"-task", m.nextTask), a)
	m.nextTask++
	task.CreatedAt = usageTimes.Draw(rt, "created")
	if task.Status = anyStatus.Draw(rt, "status"); task.Active() && slices.ContainsFunc(m.tasks, func(t *fleet.Task) bool { return t.AgentUID == a.UID && t.Active() }) {
		task.Status = fleet.TaskCompleted
	}
	m.setRandomUsage(rt, task)
	insertRows(m.t, m.s, task)
	m.tasks = append(m.tasks, task)
}

// change changes an active task. The change may end the task.
func (m *usageModel) change(rt *rapid.T) {
	i := slices.IndexFunc(m.tasks, (*fleet.Task).Active)
	if i < 0 {
		return
	}
	task := *m.tasks[i]
	task.Status = anyStatus.Draw(rt, "status")
	m.setRandomUsage(rt, &task)
	updateRows(m.t, m.s, &task)
	m.tasks[i] = &task
}

func (m *usageModel) remove(rt *rapid.T) {
	i := slices.IndexFunc(m.tasks, func(t *fleet.Task) bool { return !t.Active() })
	if i < 0 {
		return
	}
	update(m.t, m.s, func(tx fleet.Tx) error { return tx.Delete(&fleet.Task{ID: m.tasks[i].ID}) })
	m.tasks = slices.Delete(m.tasks, i, i+1)
}

// check compares the store's usage for a random filter with the expected usage.
func (m *usageModel) check(rt *rapid.T) {
	f := fleet.TaskFilter{Owner: rapid.SampledFrom([]string{m.agents[0].Owner, m.agents[1].Owner}).Draw(rt, "owner")}
	if rapid.Bool().Draw(rt, "of a project") {
		f.Project = m.agents[1].Project
	}
	if rapid.Bool().Draw(rt, "since a time") {
		f.Since = usageTimes.Draw(rt, "since")
	}
	if rapid.Bool().Draw(rt, "until a time") {
		f.Until = usageTimes.Filter(func(at time.Time) bool { return f.Since.IsZero() || at.After(f.Since) }).Draw(rt, "until")
	}
	if rapid.Bool().Draw(rt, "shared") {
		f.SharedUIDs = []string{m.agents[0].UID, m.agents[1].UID, m.agents[4].UID}
	}
	by := rapid.SampledFrom([]fleet.UsageKey{fleet.UsageByAgent, fleet.UsageByProject, fleet.UsageByOwner, fleet.UsageByDay}).Draw(rt, "by")
	rows, total := m.sum(f, by)
	view(m.t, m.s, func(tx fleet.ReadTx) error {
		gotRows, gotTotal, err := tx.Usage(f, by, 100)
		require.NoError(rt, err)
		require.Equal(rt, total, gotTotal)
		require.Equal(rt, rows, gotRows)
		return nil
	})
}

// sum returns the expected rows and the expected total for the tasks that match the filter.
func (m *usageModel) sum(f fleet.TaskFilter, by fleet.UsageKey) (rows []fleet.UsageRow, total fleet.UsageRow) {
	rows = []fleet.UsageRow{}
	sums := map[[2]string]*fleet.UsageRow{}
	cost := map[*fleet.UsageRow]float64{}
	for _, t := range m.tasks {
		a := m.agents[slices.IndexFunc(m.agents, func(a *fleet.Agent) bool { return a.UID == t.AgentUID })]
		if t.Owner != f.Owner && !slices.Contains(f.SharedUIDs, t.AgentUID) || f.Project != "" && a.Project != f.Project ||
			t.CreatedAt.Before(f.Since) || !f.Until.IsZero() && !t.CreatedAt.Before(f.Until) {
			continue
		}
		key := map[fleet.UsageKey][2]string{
			fleet.UsageByAgent: {a.Name, a.Owner}, fleet.UsageByProject: {a.Project}, fleet.UsageByOwner: {a.Owner},
			fleet.UsageByDay: {t.CreatedAt.Format(time.DateOnly)},
		}[by]
		if sums[key] == nil {
			sums[key] = &fleet.UsageRow{Key: key[0], Owner: key[1]}
		}
		for _, u := range []*fleet.UsageRow{sums[key], &total} {
			u.Tasks++
			switch t.Status {
			case fleet.TaskCompleted:
				u.Completed++
			case fleet.TaskFailed:
				u.Failed++
			case fleet.TaskStopped:
				u.Stopped++
			case fleet.TaskPending, fleet.TaskRunning:
			}
			cost[u] += math.Round(t.CostUSD * 1e9)
			u.CostUSD = cost[u] / 1e9
			u.InputTokens += t.Usage.InputTokens
			u.OutputTokens += t.Usage.OutputTokens
			u.ToolCalls += int64(t.Usage.ToolCalls)
			if !t.EndedAt.IsZero() {
				u.Took += t.EndedAt.Sub(t.StartedAt)
			}
		}
	}
	for _, u := range sums {
		rows = append(rows, *u)
	}
	slices.SortFunc(rows, func(a, b fleet.UsageRow) int {
		return cmp.Or(cmp.Compare(b.CostUSD, a.CostUSD), cmp.Compare(b.Tasks, a.Tasks), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Owner, b.Owner))
	})
	return rows, total
}
