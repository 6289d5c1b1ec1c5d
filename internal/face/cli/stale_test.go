package cli

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	fleetv1 "fleet/gen/fleet/v1"
)

// TestPlacesThatDoNotAnswer checks that lists name the place of each agent if there are several places, and that
// standard error names the places that do not answer.
func TestPlacesThatDoNotAnswer(t *testing.T) {
	t.Parallel()
	s := newStub(t)
	server, _ := s.listen(t, "")
	why := "Coder cannot be reached"
	s.places = []*fleetv1.PlaceStatus{
		{Name: "local", Ok: true, ObservedAt: timestamppb.Now()},
		{Name: "coder", Reason: &why, ObservedAt: timestamppb.New(time.Now().Add(-42 * time.Second))},
		{Name: "other", Reason: &why},
	}
	mustRun(t, server, "agent", "create", "papi", "--project", "shell", "--spec", "x")
	s.mu.Lock()
	s.agents["papi"].Place = "local"
	s.mu.Unlock()
	out, note := mustRun(t, server, "agent", "list")
	require.Regexp(t, `(?m)^NAME .* PLACE *\n^papi .* local *$`, out)
	require.Regexp(t, `^fleet: the information about the agents in coder is (4\ds|5\ds|1m) old: Coder cannot be reached\nfleet: the agents in other are not known yet: Coder cannot be reached\n$`, note)
	out, _ = mustRun(t, server, "agent", "show", "papi")
	require.Regexp(t, `(?m)^Place +local$`, out)
	out, note = mustRun(t, server, "project", "list")
	require.Regexp(t, `(?m)^NAME .* PLACE *\n^shell .* local *$`, out)
	require.Contains(t, note, "fleet: projects of coder may be missing: Coder cannot be reached\n")
}

// TestStaleListSaysWhy checks that standard error says how old a stale list is, and why, in every format.
func TestStaleListSaysWhy(t *testing.T) {
	t.Parallel()
	s := newStub(t)
	server, _ := s.listen(t, "")
	_, note := mustRun(t, server, "agent", "list")
	require.NotContains(t, note, "old")
	s.mu.Lock()
	s.staleReason = "Coder cannot be reached"
	s.mu.Unlock()
	for _, format := range []string{"table", "json"} {
		_, note = mustRun(t, server, "agent", "list", "-o", format)
		require.Regexp(t, `fleet: this answer is 4\ds old: Coder cannot be reached\n`, note)
	}
}
