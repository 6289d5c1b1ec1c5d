package storetest

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

// BenchmarkUpdate measures the most frequent write for a running task: the new size of its output, and the event of one line
// of output.
func BenchmarkUpdate(b *testing.B, s fleet.Store) {
	a := addAgent(b, s)
	task := newTask("t1", a)
	insertRows(b, s, task)
	b.ReportAllocs()
	for b.Loop() {
		update(b, s, func(tx fleet.Tx) error {
			task, err := tx.Task("t1")
			if err != nil {
				return err
			}
			task.OutputSize += 80
			if err := tx.Update(task); err != nil {
				return err
			}
			return tx.Append(newEvent(fleet.EventTaskOutput, a, "a line of output, as long as such lines are, more or less, in a terminal of 80"))
		})
	}
}

// BenchmarkStarts measures starts of tasks. Many starts run concurrently, for many agents of several owners.
func BenchmarkStarts(b *testing.B, s fleet.Store) {
	const owners = 16
	var agents []*fleet.Agent
	update(b, s, func(tx fleet.Tx) error {
		agents = nil
		for i := range 2000 {
			a := newAgent(id("uid", i), id("agent", i), id("owner", i%owners))
			if err := tx.Insert(a); err != nil {
				return err
			}
			agents = append(agents, a)
		}
		return nil
	})
	b.ReportAllocs()
	b.SetParallelism(16)
	var n atomic.Int64
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			i := int(n.Add(1))
			a := agents[i%len(agents)]
			task := newTask(id("task", i), a)
			if err := s.Update(b.Context(), func(tx fleet.Tx) error { return startTask(tx, a, task) }); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// startTask ends the agent's running task, if there is one, and starts the task. It does nothing if the task was already
// started.
func startTask(tx fleet.Tx, a *fleet.Agent, task *fleet.Task) error {
	if r, err := tx.Request(a.Owner, task.ID); err != nil || r != nil {
		return err
	}
	if _, err := tx.Agent(a.UID); err != nil {
		return err
	}
	before, err := tx.RunningTask(a.UID)
	if err != nil {
		return err
	}
	if before != nil {
		before.Status = fleet.TaskCompleted
		if err := tx.Update(before); err != nil {
			return err
		}
	}
	if _, err := tx.Holdings(a.Owner, fleet.Limits{}, fleet.HoldingsScope{WithoutAgents: true}); err != nil {
		return err
	}
	if err := tx.Insert(task); err != nil {
		return err
	}
	if err := tx.Insert(&fleet.Request{Principal: a.Owner, ID: task.ID, AgentUID: a.UID, TaskID: task.ID, CreatedAt: noon}); err != nil {
		return err
	}
	return tx.Append(newEvent(fleet.EventTaskCreated, a, "started"))
}

// BenchmarkLastSeq measures concurrent calls of LastSeq, with which reads of the snapshot begin.
func BenchmarkLastSeq(b *testing.B, s fleet.Store) {
	appendEvent(b, s)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := s.LastSeq(b.Context()); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// BenchmarkLiveAgentViews measures reading the views of n agents, half of them with a running task.
func BenchmarkLiveAgentViews(b *testing.B, s fleet.Store, n int) {
	addAgents(b, s, n)
	b.ReportAllocs()
	for b.Loop() {
		require.Len(b, read(b, s, liveViews), n)
	}
}

// BenchmarkLease measures renewing a lease.
func BenchmarkLease(b *testing.B, s fleet.Store) {
	b.ReportAllocs()
	for b.Loop() {
		takeLease(b, s, "k", "one", time.Minute)
	}
}
