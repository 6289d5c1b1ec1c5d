package npm

import (
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	fleetv1 "fleet/gen/fleet/v1"
)

// newContractFleet returns a fleet in which Claude Code works on contracts, and a client of its LifecycleService.
func newContractFleet(t *testing.T) (*subagentFleet, fleetv1.LifecycleServiceClient) {
	t.Helper()
	s := newSubagentFleet(t, nil)
	return s, fleetv1.NewLifecycleServiceClient(s.conn)
}

func agentStatus(t *testing.T, c fleetv1.LifecycleServiceClient, id string) *fleetv1.LifecycleAgent {
	t.Helper()
	r, err := c.AgentStatus(t.Context(), &fleetv1.AgentStatusRequest{AgentIds: []string{id}})
	require.NoError(t, err)
	return r.GetAgents()[0]
}

// waitForAgent waits for the end of the agent's contract, and returns the agent.
func waitForAgent(t *testing.T, c fleetv1.LifecycleServiceClient, id string) (a *fleetv1.LifecycleAgent) {
	t.Helper()
	require.Eventually(t, func() bool {
		a = agentStatus(t, c, id)
		return a.GetStatus() != fleetv1.LifecycleStatus_running
	}, defaultTimeout, 50*time.Millisecond)
	return a
}

// requireNoProcesses waits until no run without a project has a process. The runs of contracts have no project.
func (s *subagentFleet) requireNoProcesses(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool { return len(s.home.processes("FLEET_PROJECT=")) == 0 }, defaultTimeout, 10*time.Millisecond, "no process may be left")
}

// TestClaudeContract lets Claude Code report on its contract over MCP, with the agent's own token. It then stops another contract.
func TestClaudeContract(t *testing.T) {
	s, c := newContractFleet(t)
	other, err := c.AgentStart(t.Context(), &fleetv1.AgentStartRequest{Contract: "Wait.\nmodel: hang other"})
	require.NoError(t, err)
	started, err := c.AgentStart(t.Context(), &fleetv1.AgentStartRequest{Contract: strings.Join([]string{
		"Find the birds.",
		`model: tool mcp__fleet__agent_status {"agent_ids":["${self}","` + other.GetAgentId() + `"]}`,
		`model: tool mcp__fleet__agent_complete {"agent_id":"` + other.GetAgentId() + `","summary":"not mine"}`,
		`model: tool mcp__fleet__agent_start {"contract":"more of me"}`,
		`model: tool mcp__fleet__append_payload {"agent_id":"${self}","chunk":"ducks, "}`,
		`model: tool mcp__fleet__agent_complete {"agent_id":"${self}","summary":"They are found.","payload":"geese"}`,
		"model: say Never said",
	}, "\n")})
	require.NoError(t, err)
	id := started.GetAgentId()
	got := waitForAgent(t, c, id)
	require.Equal(t, fleetv1.LifecycleStatus_completed, got.GetStatus(), got.GetReason())
	require.Equal(t, "They are found.", got.GetSummary())
	require.EqualValues(t, len("ducks, geese"), got.GetPayloadSize())
	require.Equal(t, "ducks, geese", s.download(t, got.GetPayloadUrl()))

	requests := s.requestsWith("Find the birds.")
	require.Len(t, requests, 5, "the model must receive no further request")
	require.Contains(t, requests[0].System.text(), "Your agent_id is "+id)
	results := requests[4].results()
	require.Contains(t, results[0].Content.text(), `"status":"running"`)
	require.Contains(t, results[0].Content.text(), "not found", "an agent must not see other agents of its owner")
	require.Contains(t, results[1].Content.text(), "AGENT_NOT_FOUND")
	require.True(t, results[2].IsError, "an agent must not see tools that its token does not allow")
	require.False(t, results[3].IsError, results[3].Content.text())

	// Stop the other contract during a request to the model. The request must not be interrupted, and no further request
	// may follow.
	g := s.gate("other")
	waitClosed(t, g.arrived, "the other contract must begin")
	start := time.Now()
	stopped, err := c.AgentStop(t.Context(), &fleetv1.AgentStopRequest{AgentId: other.GetAgentId()})
	require.NoError(t, err)
	require.Equal(t, fleetv1.LifecycleStatus_stopped, stopped.GetStatus())
	t.Logf("stopped in %s", time.Since(start).Round(time.Millisecond))
	select {
	case <-g.left:
		require.Fail(t, "the active request must not be interrupted")
	case <-time.After(8 * time.Second): // longer than the usual grace period of a stopped run
	}
	close(g.open)
	s.requireNoProcesses(t)
	require.Len(t, s.requestsWith("Wait."), 1)
	require.Equal(t, fleetv1.LifecycleStatus_stopped, agentStatus(t, c, other.GetAgentId()).GetStatus())
}

// TestClaudeContractAsText lets Claude Code write in its text that it has fulfilled its contract, or that it cannot
// fulfill it.
func TestClaudeContractAsText(t *testing.T) {
	s, c := newContractFleet(t)
	for words, want := range map[string]fleetv1.LifecycleStatus{
		`They are ducks.\n[CONTRACT COMPLETE]`:   fleetv1.LifecycleStatus_completed,
		`There are no birds.\n[CONTRACT FAILED]`: fleetv1.LifecycleStatus_stopped,
	} {
		r, err := c.AgentStart(t.Context(), &fleetv1.AgentStartRequest{Contract: "Find the birds.\nmodel: say " + words})
		require.NoError(t, err)
		got := waitForAgent(t, c, r.GetAgentId())
		require.Equal(t, want, got.GetStatus())
		require.Equal(t, fleetv1.LifecycleAgent_reported, got.GetCompletion())
		report, _, _ := strings.Cut(words, `\n`)
		require.Equal(t, report, got.GetSummary()+got.GetReason())
	}
	s.requireNoProcesses(t)
}

// TestClaudeContractFiles lets Claude Code create a file, with a server that has no configuration. The file must still
// exist after the agent has been deleted. Claude Code may not write to other directories.
func TestClaudeContractFiles(t *testing.T) {
	s, c := newContractFleet(t)
	r, err := c.AgentStart(t.Context(), &fleetv1.AgentStartRequest{Contract: strings.Join([]string{
		"Write about the birds.",
		`model: tool Write {"file_path":"birds.txt","content":"ducks"}`,
		`model: tool Write {"file_path":"` + s.home.path("outside.txt") + `","content":"not its own"}`,
		`model: tool Bash {"command":"curl --version"}`,
		"model: say They are written.",
	}, "\n")})
	require.NoError(t, err)
	var got *fleetv1.LifecycleAgent
	require.Eventually(t, func() bool {
		got = agentStatus(t, c, r.GetAgentId())
		return strings.Contains(got.GetWork(), "are kept in")
	}, defaultTimeout, 50*time.Millisecond)
	require.Equal(t, fleetv1.LifecycleStatus_completed, got.GetStatus(), got.GetReason())
	require.Equal(t, fleetv1.LifecycleAgent_inferred, got.GetCompletion())
	_, rest, _ := strings.Cut(got.GetWork(), "are kept in ")
	dir, _, _ := strings.Cut(rest, " until ")
	require.Equal(t, "ducks", string(read(t, filepath.Join(dir, "birds.txt"))))
	require.NoFileExists(t, s.home.path("outside.txt"))
	requests := s.requestsWith("Write about the birds.")
	results := requests[len(requests)-1].results()
	require.Equal(t, []bool{false, true, true}, []bool{results[0].IsError, results[1].IsError, results[2].IsError})
}

// download returns the content at the URL of a payload. The server must compress it.
func (s *subagentFleet) download(t *testing.T, url string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodGet, url, nil)
	require.NoError(t, err)
	r.Header.Set("Accept-Encoding", "gzip")
	resp, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	require.Equal(t, "gzip", resp.Header.Get("Content-Encoding"))
	z, err := gzip.NewReader(resp.Body)
	require.NoError(t, err)
	b, err := io.ReadAll(z)
	require.NoError(t, err)
	return string(b)
}
