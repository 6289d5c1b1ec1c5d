package cli

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	fleetv1 "fleet/gen/fleet/v1"
)

// TestRotateNowTakesAValue checks that "webhook rotate --now=false" does not end the old secret.
func TestRotateNowTakesAValue(t *testing.T) {
	t.Parallel()
	s := newStub(t)
	var overlap *int32
	s.beforeUnary = func(_ context.Context, _ string, req any) error {
		r, _ := req.(*fleetv1.RotateWebhookRequest)
		overlap = r.OverlapSeconds
		return errors.New("stop here")
	}
	server, _ := s.listen(t, "")
	for value, want := range map[string]*int32{"": new(int32), "=true": new(int32), "=false": nil} {
		runFleet(server, "webhook", "rotate", "ops", "--now"+value)
		require.Equal(t, want, overlap, value)
	}
	require.Equal(t, ExitUsage, newCommand(server).run("webhook", "rotate", "ops", "--now=maybe"))
}
