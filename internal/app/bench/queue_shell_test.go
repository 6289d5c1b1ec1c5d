package bench

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/app"
	"fleet/internal/fleet"
	"fleet/internal/place/local"
	"fleet/internal/store/sqlite"
)

// BenchmarkQueueShell measures how soon agents on this machine start their next task: with tasks of one to four seconds, and with
// tasks so short that the processors do nothing but start programs.
func BenchmarkQueueShell(b *testing.B) {
	for _, c := range []struct {
		name   string
		agents int
		sleep  string
		goal   float64 // in ms; 0: none
	}{
		{"agents=4", 4, "$((1 + RANDOM % 3)).$((RANDOM % 10))", 250},
		{"agents=40", 40, "$((1 + RANDOM % 3)).$((RANDOM % 10))", 250},
		{"agents=40/short", 40, "0.2", 0},
	} {
		b.Run(c.name, func(b *testing.B) {
			next, output := measureStartDelays(b, fullOrSmall(c.agents, 2), fullOrSmall(10, 2), "echo begun; sleep "+c.sleep)
			report(b, quantile(next, 0.5), "p50-ms", "", 0)
			report(b, quantile(next, 0.99), "p99-ms", "at most", c.goal)
			report(b, quantile(output, 0.5), "output-p50-ms", "", 0)
			report(b, quantile(output, 0.99), "output-p99-ms", "", 0)
		})
	}
}

// measureStartDelays lets each agent run the script as a number of tasks, and returns the delays of all tasks; see startDelays.
func measureStartDelays(b *testing.B, agents, tasks int, script string) (startDelaysMS, outputDelaysMS []float64) {
	t := &testbed{data: b.TempDir()}
	s := t.serve(b, func(c *app.Config) { c.Local.Projects, c.StopGrace = []local.Project{{Name: "shell"}}, time.Second })
	var err error
	t.store, err = sqlite.Open(b.Context(), filepath.Join(t.data, "fleet.db"), sqlite.Config{})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, t.store.Close()) })
	for i := range agents {
		s.createAgent(b, i)
	}
	for b.Loop() {
		_, err := s.PauseFleet(b.Context(), &fleetv1.PauseFleetRequest{})
		require.NoError(b, err)
		var ids []string
		for i := range agents * tasks {
			q, err := s.QueueTask(b.Context(), &fleetv1.QueueTaskRequest{AgentName: agentName(i % agents), TaskDescription: script})
			require.NoError(b, err)
			ids = append(ids, q.GetTask().GetId())
		}
		_, err = s.ResumeFleet(b.Context(), &fleetv1.ResumeFleetRequest{})
		require.NoError(b, err)
		for _, id := range ids {
			s.awaitTasks(b, &fleetv1.WaitTasksRequest{TaskIds: []string{id}})
		}
		n, o := t.startDelays(b, ids)
		require.Len(b, n, agents*(tasks-1))
		startDelaysMS, outputDelaysMS = append(startDelaysMS, n...), append(outputDelaysMS, o...)
	}
	return startDelaysMS, outputDelaysMS
}

// startDelays returns delays in ms. startDelaysMS has the time from the end of a task to the start of the agent's next task. outputDelaysMS has the time
// from the start of each task to its first output.
func (t *testbed) startDelays(b *testing.B, ids []string) (startDelaysMS, outputDelaysMS []float64) {
	lastEnds := map[string]time.Time{} // by agent
	ms := func(d time.Duration) float64 { return d.Seconds() * 1000 }
	require.NoError(b, t.store.View(b.Context(), func(tx fleet.ReadTx) error {
		var tasks []*fleet.Task
		for _, id := range ids {
			task, err := tx.Task(id)
			if err != nil {
				return err
			}
			events, err := tx.Events(fleet.EventFilter{TaskID: id, Types: []fleet.EventType{fleet.EventTaskOutput}}, fleet.EventWindow{Limit: 1})
			if err != nil {
				return err
			}
			for _, e := range events {
				outputDelaysMS = append(outputDelaysMS, ms(e.Time.Sub(task.StartedAt)))
			}
			tasks = append(tasks, task)
		}
		for _, task := range tasks { // the tasks of an agent start in this order
			if at := lastEnds[task.AgentUID]; !at.IsZero() {
				startDelaysMS = append(startDelaysMS, ms(task.StartedAt.Sub(at)))
			}
			lastEnds[task.AgentUID] = task.EndedAt
		}
		return nil
	}))
	return startDelaysMS, outputDelaysMS
}
