package bench

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/fleet"
)

// awaitTasks waits until the tasks of the request have ended. One call waits for a limited time.
func (s *server) awaitTasks(b *testing.B, r *fleetv1.WaitTasksRequest) {
	for done := false; !done; {
		answer, err := s.WaitTasks(b.Context(), r)
		require.NoError(b, err)
		done = answer.GetDone()
	}
}

// BenchmarkQueue measures a server on SQLite whose queue has many tasks.
func BenchmarkQueue(b *testing.B) {
	const d = time.Second / 2
	agents, pending, clients := fullOrSmall(1000, 4), fullOrSmall(10_000, 40), fullOrSmall(16, 2)
	t := newFleet(b, "", agents, fleet.LocalPrincipal)
	now := time.Now().UTC().Truncate(time.Second)
	t.insert(b, pending, func(tx fleet.Tx, i int) error {
		id := fmt.Sprintf("20000000-0000-4000-8000-%012d", i)
		task := &fleet.Task{
			ID: id, AgentUID: agentUID(i % agents), AgentName: agentName(i % agents), Owner: fleet.LocalPrincipal, Description: "Say hello.", Source: fleet.SourceHuman,
			Status: fleet.TaskPending, CreatedAt: now.Add(time.Duration(i-pending) * time.Millisecond),
		}
		if err := tx.Insert(task); err != nil {
			return err
		}
		return tx.Put(id, &fleet.QueueEntry{By: "somebody", Kind: fleet.KindHuman, Scope: fleet.ScopeAdmin, NotBefore: now.Add(24 * time.Hour)})
	})
	s := t.serve(b, nil)
	compare(b, d, row{name: "list_queue", maxP99Millis: 50, measure: repeat(1, func(int) error {
		l, err := s.ListQueue(b.Context(), &fleetv1.ListQueueRequest{})
		if err == nil && l.GetTotalCount() < int32(pending) { //nolint:gosec // small
			err = fmt.Errorf("the list has only %d tasks", l.GetTotalCount())
		}
		return err
	})})
	b.Run("with-budgets", func(b *testing.B) {
		for _, r := range budgets() {
			_, err := s.SetBudget(b.Context(), r)
			require.NoError(b, err)
		}
		compare(b, d, row{name: "show_queue", maxP99Millis: 20, measure: repeat(1, func(int) error { // show_queue checks the budgets
			q, err := s.ShowQueue(b.Context(), &fleetv1.ShowQueueRequest{})
			if err == nil && q.GetPending() < int32(pending) { //nolint:gosec // small
				err = fmt.Errorf("only %d tasks wait", q.GetPending())
			}
			return err
		})})
		for _, r := range budgets() {
			_, err := s.DeleteBudget(b.Context(), &fleetv1.DeleteBudgetRequest{Name: r.GetName()})
			require.NoError(b, err)
		}
	})
	l := &load{agents: agents, servers: []*server{s}}
	compare(b, d, row{name: "queue_task", maxP99Millis: 100, measure: repeat(clients, l.queueTask(b))})
	b.Run("end-to-next-start", func(b *testing.B) {
		durations := eachIteration(b, func(i int) float64 {
			name := agentName(i % agents)
			var ids []string
			for range 2 {
				q, err := s.QueueTask(b.Context(), &fleetv1.QueueTaskRequest{AgentName: name, TaskDescription: "done"})
				require.NoError(b, err)
				ids = append(ids, q.GetTask().GetId())
			}
			s.awaitTasks(b, &fleetv1.WaitTasksRequest{TaskIds: ids, Mode: fleetv1.WaitTasksRequest_all})
			var gap time.Duration // from the store, because times in the API are whole seconds
			require.NoError(b, t.store.View(b.Context(), func(tx fleet.ReadTx) error {
				first, err := tx.Task(ids[0])
				if err != nil {
					return err
				}
				second, err := tx.Task(ids[1])
				gap = second.StartedAt.Sub(first.EndedAt)
				return err
			}))
			return gap.Seconds() * 1000
		})
		report(b, quantile(durations, 0.5), "p50-ms", "", 0)
		report(b, quantile(durations, 0.99), "p99-ms", "at most", 250)
	})
}

// budgets returns budgets of each scope. No budget holds a task back.
func budgets() (all []*fleetv1.SetBudgetRequest) {
	for scope, values := range map[string][]string{
		"fleet": {""}, "project": {"Setup", "fake/DataOne"}, "role": {"coder", "Setup/operator", "manager"}, "owner": {fleet.LocalPrincipal, "nobody"},
		"label": {"env=prod,team in (a,b)", "!x"}, "agent": {agentName(0), agentName(1), agentName(2)}, "pool": {"none"},
	} {
		for i, value := range values {
			all = append(all, &fleetv1.SetBudgetRequest{Name: fmt.Sprintf("%s-%d", scope, i), Scope: scope, Value: value, LimitUsd: new(100_000.0), Window: "day"})
		}
	}
	return all
}
