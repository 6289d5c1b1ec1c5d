package crash

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/place/placetest/model"
	"fleet/internal/waittest"
)

// stubKey is the API key of the model that agents of sessions use.
const stubKey = "sk-stub-0123456789"

const workerAgent = `
models:
  stub: {provider: anthropic, model: stub-large, base_url: %q}
agents:
  root:
    model: stub
    instruction: Work.
    toolsets: [{type: %s}]
permissions: {allow: [shell]}
`

// TestTurnSurvivesServer ends the server while a model works on a message. A model that touches the machine has a process of its
// own, which continues. Any other model is in the server's process, and the next server resumes its run.
func TestTurnSurvivesServer(t *testing.T) {
	t.Parallel()
	const apart, inside = `model: tool shell {"cmd":"echo done >> proof; cat proof","cwd":""}`, `model: tool create_todo {"description":"done"}`
	for name, c := range map[string]struct {
		toolset, tool string
		signal        syscall.Signal
		requests      int // that the model receives
	}{
		"killed, the model has a process of its own":  {"shell", apart, syscall.SIGKILL, 2},
		"stopped, the model has a process of its own": {"shell", apart, syscall.SIGTERM, 2},
		"killed, the model is in its process":         {"todo", inside, syscall.SIGKILL, 3},
		"stopped, the model is in its process":        {"todo", inside, syscall.SIGTERM, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			turnSurvivesServer(t, c.toolset, c.tool, c.signal, c.requests)
		})
	}
}

func turnSurvivesServer(t *testing.T, toolset, tool string, signal syscall.Signal, requests int) {
	stub := model.New(t)
	s := supervise(t, "")
	require.NoError(t, os.WriteFile(filepath.Join(definitions(s.data), "worker.yaml"), fmt.Appendf(nil, workerAgent, stub.URL, toolset), 0o600))

	created, err := fleetv1.NewSessionServiceClient(s.channel()).CreateAgentSession(t.Context(), &fleetv1.CreateAgentSessionRequest{Agent: "worker.yaml"})
	require.NoError(t, err)
	message := &fleetv1.SendMessageRequest{
		AgentSessionId: created.GetAgentSessionId(), RequestId: "message",
		Message: tool + "\nmodel: hang here",
	}
	sent, err := fleetv1.NewSessionServiceClient(s.channel()).SendMessage(t.Context(), message)
	require.NoError(t, err)
	<-stub.Gate("here").Arrived()
	s.end(signal)
	for err == nil {
		_, err = sent.Recv()
	}
	stub.Gate("here").Open() // either before or after the next server has started

	var answer *fleetv1.SendMessageResponse
	waittest.Until(t, "the next server is asked until it is there", func() bool {
		again, err := fleetv1.NewSessionServiceClient(s.channel()).SendMessage(t.Context(), message)
		for err == nil {
			var r *fleetv1.SendMessageResponse
			if r, err = again.Recv(); err == nil && r.GetType() == fleetv1.SendMessageResponse_complete {
				answer = r
			}
		}
		return answer != nil
	})
	require.Contains(t, answer.GetResponse(), "Went on")
	require.Contains(t, fmt.Sprint(answer.GetEvents()), "done")
	require.Len(t, stub.Requests(), requests)

	client := fleetv1.NewSessionServiceClient(s.channel())
	history, err := client.GetAgentSessionHistory(t.Context(), &fleetv1.GetAgentSessionHistoryRequest{AgentSessionId: created.GetAgentSessionId()})
	require.NoError(t, err)
	require.Len(t, history.GetMessages(), 2)
	require.Equal(t, "completed", history.GetMessages()[1].GetStatus(), history.GetMessages()[1].GetReason())
	_, err = client.CloseAgentSession(t.Context(), &fleetv1.CloseAgentSessionRequest{AgentSessionId: created.GetAgentSessionId()})
	require.NoError(t, err)
	s.awaitNothingLeft()
}
