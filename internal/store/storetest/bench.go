package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

// BenchmarkUpdate measures the most frequent write of a running task: its cursor and a line of output.
func BenchmarkUpdate(b *testing.B, s fleet.Store) {
	a := withAgent(b, s)
	task := newTask("t1", a)
	update(b, s, func(tx fleet.Tx) error { return tx.InsertTask(task) })
	b.ReportAllocs()
	for b.Loop() {
		update(b, s, func(tx fleet.Tx) error {
			task, err := tx.Task("t1")
			if err != nil {
				return err
			}
			task.OutputSize += 80
			if err := tx.UpdateTask(task); err != nil {
				return err
			}
			return tx.Append(newEvent(fleet.EventTaskOutput, a, "a line of output, as long as such lines are, more or less, in a terminal of 80"))
		})
	}
}

// BenchmarkLastSeq measures the first read of every call, from many goroutines.
func BenchmarkLastSeq(b *testing.B, s fleet.Store) {
	appendOne(b, s)
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

// BenchmarkLiveAgentViews measures reading a fleet of n agents, half of them busy.
func BenchmarkLiveAgentViews(b *testing.B, s fleet.Store, n int) {
	fill(b, s, n)
	b.ReportAllocs()
	for b.Loop() {
		require.Len(b, read(b, s, fleet.ReadTx.LiveAgentViews), n)
	}
}

// BenchmarkLease measures renewing a lease.
func BenchmarkLease(b *testing.B, s fleet.Store) {
	b.ReportAllocs()
	for b.Loop() {
		lease(b, s, "k", "one", time.Minute)
	}
}
