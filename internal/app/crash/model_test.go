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

// workerAgent is an agent file. Its formatting verbs stand for the URL of the model and the type of the toolset.
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

// TestTurnSurvivesServer ends the server while a model works on a message of a session. The next server must answer the message
// without repeating a request to the model.
func TestTurnSurvivesServer(t *testing.T) {
	t.Parallel()
	for _, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		for toolset, tool := range map[string]string{
			"shell": `model: tool shell {"cmd":"echo done >> proof; cat proof","cwd":""}`, "todo": `model: tool create_todo {"description":"done"}`,
		} {
			t.Run(toolset+" "+signal.String(), func(t *testing.T) {
				t.Parallel()
				requireTurnSurvives(t, toolset, tool, signal)
			})
		}
	}
}

func requireTurnSurvives(t *testing.T, toolset, tool string, signal syscall.Signal) {
	stub := model.New(t)
	s := supervise(t, "")
	require.NoError(t, os.WriteFile(filepath.Join(definitionsDir(s.data), "worker.yaml"), fmt.Appendf(nil, workerAgent, stub.URL, toolset), 0o600))

	created, err := fleetv1.NewSessionServiceClient(s.connection()).CreateAgentSession(t.Context(), &fleetv1.CreateAgentSessionRequest{Agent: "worker.yaml"})
	require.NoError(t, err)
	message := &fleetv1.SendMessageRequest{
		AgentSessionId: created.GetAgentSessionId(), RequestId: "message",
		Message: tool + "\nmodel: hang here",
	}
	stream, err := fleetv1.NewSessionServiceClient(s.connection()).SendMessage(t.Context(), message)
	require.NoError(t, err)
	<-stub.Gate("here").Arrived()
	s.end(signal)
	for err == nil {
		_, err = stream.Recv()
	}
	stub.Gate("here").Open() // either before or after the next server has started

	var answer *fleetv1.SendMessageResponse
	waittest.Until(t, "the next server sends no signal when it has the answer", func() bool {
		retried, err := fleetv1.NewSessionServiceClient(s.connection()).SendMessage(t.Context(), message)
		for err == nil {
			var r *fleetv1.SendMessageResponse
			if r, err = retried.Recv(); err == nil && r.GetType() == fleetv1.SendMessageResponse_complete {
				answer = r
			}
		}
		return answer != nil
	})
	require.Contains(t, answer.GetResponse(), "Went on")
	require.Contains(t, fmt.Sprint(answer.GetEvents()), "done")
	require.Len(t, stub.Requests(), 2, "no request may be repeated")

	client := fleetv1.NewSessionServiceClient(s.connection())
	history, err := client.GetAgentSessionHistory(t.Context(), &fleetv1.GetAgentSessionHistoryRequest{AgentSessionId: created.GetAgentSessionId()})
	require.NoError(t, err)
	require.Len(t, history.GetMessages(), 2)
	require.Equal(t, "completed", history.GetMessages()[1].GetStatus(), history.GetMessages()[1].GetReason())
	_, err = client.CloseAgentSession(t.Context(), &fleetv1.CloseAgentSessionRequest{AgentSessionId: created.GetAgentSessionId()})
	require.NoError(t, err)
	s.awaitNothingLeft()
}
