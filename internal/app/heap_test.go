package app

import (
	"runtime"
	"runtime/metrics"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTheCollectorWaits checks that the garbage collector runs only after the heap has grown by the size of keepHeap,
// however small the fleet is.
func TestTheCollectorWaits(t *testing.T) {
	t.Parallel()
	floor := uint64(len(keepHeap()))
	runtime.GC()
	goal := []metrics.Sample{{Name: "/gc/heap/goal:bytes"}}
	metrics.Read(goal)
	require.Greater(t, goal[0].Value.Uint64(), 2*floor)
}
