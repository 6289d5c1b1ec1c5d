package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"pgregory.net/rapid"

	"fleet/internal/fleet"
)

var usageCases = []testCase{
	{"usage by agent, project, owner and day", func(t *testing.T, s fleet.Store) {
		add := func(uid, name, owner, project string, tasks ...*fleet.Task) {
			a := newAgent(uid, name, owner)
			a.Project = project
			insertRows(t, s, a)
			for _, task := range tasks {
				task.AgentUID, task.AgentName, task.Owner, task.Source = a.UID, a.Name, a.Owner, fleet.SourceHuman
				insertRows(t, s, task)
			}
		}
		day := noon.Add(24 * time.Hour)
		add("u1", "papi", "alice", "Setup",
			&fleet.Task{
				ID: "t1", Status: fleet.TaskCompleted, CreatedAt: noon, StartedAt: noon, EndedAt: noon.Add(time.Minute), CostUSD: 0.5,
				Usage: fleet.Usage{InputTokens: 100, OutputTokens: 10, ToolCalls: 3},
			},
			&fleet.Task{ID: "t2", Status: fleet.TaskFailed, CreatedAt: day, StartedAt: day, EndedAt: day.Add(time.Second), CostUSD: 0.25})
		add("u2", "worker", "alice", "DataOne", &fleet.Task{ID: "t3", Status: fleet.TaskRunning, CreatedAt: day, StartedAt: day})
		add("u3", "papi", "bob", "Setup", &fleet.Task{ID: "t4", Status: fleet.TaskStopped, CreatedAt: day, CostUSD: 1})
		usage := func(f fleet.TaskFilter, by fleet.UsageKey, limit int) (rows []fleet.UsageRow, total fleet.UsageRow) {
			view(t, s, func(tx fleet.ReadTx) (err error) {
				rows, total, err = tx.Usage(f, by, limit)
				return err
			})
			return rows, total
		}
		rows, total := usage(fleet.TaskFilter{}, fleet.UsageByAgent, 10)
		require.Equal(t, []fleet.UsageRow{
			{Key: "papi", Owner: "bob", Tasks: 1, Stopped: 1, CostUSD: 1},
			{Key: "papi", Owner: "alice", Tasks: 2, Completed: 1, Failed: 1, CostUSD: 0.75, InputTokens: 100, OutputTokens: 10, ToolCalls: 3, Took: 61 * time.Second},
			{Key: "worker", Owner: "alice", Tasks: 1},
		}, rows)
		require.Equal(t, fleet.UsageRow{Tasks: 4, Completed: 1, Failed: 1, Stopped: 1, CostUSD: 1.75, InputTokens: 100, OutputTokens: 10, ToolCalls: 3, Took: 61 * time.Second}, total)

		_, total = usage(fleet.TaskFilter{Owner: "bob", SharedUIDs: []string{"u2"}}, fleet.UsageByDay, 10)
		require.Equal(t, 2, total.Tasks)
		rows, total = usage(fleet.TaskFilter{}, fleet.UsageByAgent, 1)
		require.Len(t, rows, 1)
		require.Equal(t, 4, total.Tasks, "the total must include the rows beyond the limit")

		keys := func(f fleet.TaskFilter, by fleet.UsageKey) (keys []string) {
			rows, _ := usage(f, by, 10)
			for _, r := range rows {
				keys = append(keys, r.Key)
			}
			return keys
		}
		require.Equal(t, []string{"Setup", "DataOne"}, keys(fleet.TaskFilter{}, fleet.UsageByProject))
		require.Equal(t, []string{"bob", "alice"}, keys(fleet.TaskFilter{}, fleet.UsageByOwner))
		require.Equal(t, []string{day.Format(time.DateOnly), noon.Format(time.DateOnly)}, keys(fleet.TaskFilter{}, fleet.UsageByDay))
		require.Equal(t, []string{noon.Format(time.DateOnly)}, keys(fleet.TaskFilter{Owner: "alice", Until: day}, fleet.UsageByDay))
		require.Equal(t, []string{"papi", "worker"}, keys(fleet.TaskFilter{Owner: "alice", Since: day}, fleet.UsageByAgent))

		update(t, s, func(tx fleet.Tx) error { return tx.Put("t2", fleet.Labels{"env": "prod"}) })
		prod := fleet.TaskFilter{Selector: fleet.Selector{{Key: "env", Values: []string{"prod"}}}}
		require.Equal(t, []string{day.Format(time.DateOnly)}, keys(prod, fleet.UsageByDay))
		_, total = usage(prod, fleet.UsageByAgent, 10)
		require.Equal(t, 1, total.Tasks)

		rows, total = usage(fleet.TaskFilter{Owner: "nobody"}, fleet.UsageByDay, 10)
		require.Empty(t, rows)
		require.Zero(t, total)
	}},

	{"usage of random tasks", func(t *testing.T, s fleet.Store) {
		run := 0
		rapid.Check(t, func(rt *rapid.T) {
			run++
			m := newUsageModel(t, s, id("run", run))
			for range rapid.IntRange(1, 12).Draw(rt, "steps") {
				rapid.SampledFrom([]func(*rapid.T){m.insert, m.insert, m.change, m.remove, m.check}).Draw(rt, "step")(rt)
			}
			m.check(rt)
		})
	}},

	{"usage while tasks end", func(t *testing.T, s fleet.Store) {
		const agents, rounds = 4, 10
		g, ctx := errgroup.WithContext(t.Context())
		update(t, s, func(tx fleet.Tx) error {
			for i := range agents {
				require.NoError(t, tx.Insert(newAgent(id("u", i), id("a", i), "alice")))
			}
			return nil
		})
		for i := range agents {
			g.Go(func() error {
				for round := range rounds {
					task := newTask(id(id("t", i), round), newAgent(id("u", i), id("a", i), "alice"))
					if err := s.Update(ctx, func(tx fleet.Tx) error { return tx.Insert(task) }); err != nil {
						return err
					}
					if err := s.Update(ctx, func(tx fleet.Tx) error {
						ended := *task
						ended.Status, ended.CostUSD = fleet.TaskCompleted, 0.1
						return tx.Update(&ended)
					}); err != nil {
						return err
					}
				}
				return nil
			})
		}
		done := make(chan error, 1)
		go func() { done <- g.Wait() }()
		for ended := false; !ended; {
			select {
			case err := <-done:
				require.NoError(t, err)
				ended = true
			default:
			}
			view(t, s, func(tx fleet.ReadTx) error {
				_, sums, err := tx.Usage(fleet.TaskFilter{}, fleet.UsageByDay, 10)
				require.NoError(t, err)
				_, computed, err := tx.Usage(fleet.TaskFilter{}, fleet.UsageByAgent, 10) // computed from the tasks, not from stored sums
				require.NoError(t, err)
				require.Equal(t, computed, sums)
				if ended {
					require.Equal(t, fleet.UsageRow{Tasks: agents * rounds, Completed: agents * rounds, CostUSD: agents * rounds * 0.1}, sums)
				}
				return nil
			})
		}
	}},
}
