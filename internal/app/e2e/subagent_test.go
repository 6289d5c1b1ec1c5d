package e2e

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fleetv1 "fleet/gen/fleet/v1"
)

// TestSubagentInWorkspace runs subagents in their own workspaces: one for a single call, and one for a conversation and
// for a call that is cancelled.
func TestSubagentInWorkspace(t *testing.T) {
	b := newTestbed(t, "bob")
	s := b.serve(t, setup{agents: map[string]string{
		"code_review": "container: coder\nproject: Setup\nrole: operator\n---\nYou review code.",
		"github":      "container: coder\nproject: Setup\nsession: true\n---\nYou know GitHub.",
		"lost":        "container: coder\nproject: Nowhere\n---\nYou are lost.",
	}})
	subs := fleetv1.NewSubagentServiceClient(s.grpc)
	run := func(ctx context.Context, name, prompt string) (*fleetv1.RunSubagentResponse, error) {
		ctx, cancel := context.WithTimeout(ctx, 2*defaultTimeout)
		defer cancel()
		return subs.RunSubagent(ctx, &fleetv1.RunSubagentRequest{AgentName: name, Prompt: prompt})
	}
	noWorkspace := func() bool { return len(s.fleetWorkspaces(t)) == 0 }

	start := time.Now()
	r, err := run(t.Context(), "code_review", "echo all is well")
	require.NoError(t, err)
	require.Equal(t, "all is well", strings.TrimSpace(r.GetResult()))
	require.Equal(t, "code_review", r.GetAgent())
	t.Logf("a workspace, a run and its answer in %s", time.Since(start).Round(10*time.Millisecond))
	b.eventually(t, "its workspace is deleted", noWorkspace)

	one, err := run(t.Context(), "github", "echo one")
	require.NoError(t, err)
	left := s.fleetWorkspaces(t)
	require.Len(t, left, 1)
	require.True(t, strings.HasPrefix(left[0].Name, s.prefix+"github-"), left[0].Name)
	two, err := run(t.Context(), "github", "echo two")
	require.NoError(t, err)
	require.Equal(t, "two", strings.TrimSpace(two.GetResult()))
	require.Equal(t, one.GetSessionId(), two.GetSessionId())
	require.Len(t, s.fleetWorkspaces(t), 1, "the next call must use the same workspace")

	_, err = run(t.Context(), "lost", "echo x")
	require.Equal(t, codes.InvalidArgument, status.Code(err), "%v", err)
	require.ErrorContains(t, err, "Nowhere")

	// Cancel a call while the subagent works.
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := run(ctx, "github", "sleep 600 for nobody")
		ended <- err
	}()
	b.eventually(t, "the subagent has received the prompt", func() bool { return b.timesPrompted(t, left[0].Name, "sleep 600 for nobody") > 0 })
	cancel()
	require.Equal(t, codes.Canceled, status.Code(<-ended))
	three, err := run(t.Context(), "github", "echo three")
	require.NoError(t, err, "the subagent must accept a call again")
	require.Equal(t, "three", strings.TrimSpace(three.GetResult()))
}

// TestSubagentBesideLocalFleet runs a subagent in a workspace of Coder, for a fleet whose own agents run on this
// machine.
func TestSubagentBesideLocalFleet(t *testing.T) {
	b := newTestbed(t, "bob")
	s := b.serve(t, setup{places: "[local]", agents: map[string]string{"review": "container: coder\nproject: Setup\n---\nYou review."}})
	r, err := fleetv1.NewSubagentServiceClient(s.grpc).RunSubagent(t.Context(), &fleetv1.RunSubagentRequest{AgentName: "review", Prompt: "echo from afar"})
	require.NoError(t, err)
	require.Equal(t, "from afar", strings.TrimSpace(r.GetResult()))
	b.eventually(t, "its workspace is deleted", func() bool { return len(s.fleetWorkspaces(t)) == 0 })
	agents, err := s.api.ListAgents(t.Context(), &fleetv1.ListAgentsRequest{})
	require.NoError(t, err)
	require.Empty(t, agents.GetAgents(), "a workspace of a subagent must not appear as an agent of the fleet")
}
