package cli

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	fleetv1 "fleet/gen/fleet/v1"
)

// CompareFanOut answers with two tasks.
func (s *stub) CompareFanOut(context.Context, *fleetv1.CompareFanOutRequest) (*fleetv1.CompareFanOutResponse, error) {
	return &fleetv1.CompareFanOutResponse{Variants: []*fleetv1.Variant{
		{Number: 1, Task: &fleetv1.Task{Id: "task-of-the-first"}}, {Number: 2, Task: &fleetv1.Task{Id: "task-of-the-second"}},
	}}, nil
}

// PruneWork answers with one leftover.
func (s *stub) PruneWork(context.Context, *fleetv1.PruneWorkRequest) (*fleetv1.PruneWorkResponse, error) {
	return &fleetv1.PruneWorkResponse{Message: "1 leftover can be removed", Leftovers: []*fleetv1.Leftover{{Kind: fleetv1.Leftover_home, Location: "/srv/papi"}}}, nil
}

// TestQuietPrintsNames checks that -q prints names and ids also if the table begins with another column.
func TestQuietPrintsNames(t *testing.T) {
	t.Parallel()
	server, _ := newStub(t).listen(t, "")
	for want, args := range map[string][]string{
		"main.go\nb.png\n":                        {"task", "diff", "t-1", "--stat", "-q"},
		"task-of-the-first\ntask-of-the-second\n": {"task", "compare", "t-1", "-q"},
		"/srv/papi\n":                             {"prune", "--dry-run", "-q"},
	} {
		out, _ := mustRun(t, server, args...)
		require.Equal(t, want, out, args)
	}
	out, _ := mustRun(t, server, "prune", "--dry-run")
	require.Contains(t, out, "1 leftover can be removed")
}
