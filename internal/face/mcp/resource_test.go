package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/api/httpbody"
	"google.golang.org/grpc"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/face/mcp"
)

func (*stub) ListTaskSteps(_ context.Context, q *fleetv1.ListTaskStepsRequest) (*fleetv1.ListTaskStepsResponse, error) {
	return &fleetv1.ListTaskStepsResponse{Steps: []*fleetv1.Step{{Summary: "reads main.go"}}}, knownTask(q.GetTaskId())
}

func (*stub) DownloadTaskPayload(q *fleetv1.DownloadTaskPayloadRequest, out grpc.ServerStreamingServer[httpbody.HttpBody]) error {
	if err := knownTask(q.GetTaskId()); err != nil {
		return err
	}
	for _, part := range []string{"the whole ", "result"} {
		if err := out.Send(&httpbody.HttpBody{ContentType: "text/plain", Data: []byte(part)}); err != nil {
			return err
		}
	}
	return nil
}

// TestListOfResourcesMakesOnlyPermittedCalls checks that listing resources makes no call that the caller may not make, because the
// audit log would record the refusal.
func TestListOfResourcesMakesOnlyPermittedCalls(t *testing.T) {
	t.Parallel()
	url := serve(t, newStub(), mcp.Config{Rights: func(context.Context) func(string) bool {
		return func(method string) bool { return method == fleetv1.FleetService_ShowTask_FullMethodName }
	}}).URL + "/mcp"
	for _, isModern := range []bool{false, true} {
		var listed struct{ Resources []struct{ URI string } }
		require.NoError(t, json.Unmarshal(ask(t, url, "resources/list", "", "", isModern).Result, &listed))
		require.Empty(t, listed.Resources)
	}
}

// ownersStub is a FleetService with agents of two owners. The caller is alice.
type ownersStub struct{ *stub }

func (ownersStub) ListAgents(context.Context, *fleetv1.ListAgentsRequest) (*fleetv1.ListAgentsResponse, error) {
	return &fleetv1.ListAgentsResponse{Agents: []*fleetv1.AgentSummary{{Name: "papi", Owner: "alice"}, {Name: "papi", Owner: "oidc:bob+c d"}}}, nil
}

func (ownersStub) ShowFleet(context.Context, *fleetv1.ShowFleetRequest) (*fleetv1.ShowFleetResponse, error) {
	return &fleetv1.ShowFleetResponse{Caller: "alice"}, nil
}

func (ownersStub) ShowAgent(_ context.Context, q *fleetv1.ShowAgentRequest) (*fleetv1.ShowAgentResponse, error) {
	return &fleetv1.ShowAgentResponse{Agent: agent(q.GetAgentName())}, nil
}

// TestResourcesOfAgentsWithOneName checks that agents of different owners have different URIs, and that each URI reads its agent.
func TestResourcesOfAgentsWithOneName(t *testing.T) {
	t.Parallel()
	url := serve(t, ownersStub{newStub()}, mcp.Config{}).URL + "/mcp"
	var listed struct{ Resources []struct{ URI string } }
	require.NoError(t, json.Unmarshal(ask(t, url, "resources/list", "", "", true).Result, &listed))
	for i, want := range []struct{ uri, agent string }{
		{"fleet://agent/papi", "papi"}, {"fleet://agent/papi%40oidc%3Abob%2Bc%20d", "papi@oidc:bob+c d"},
	} {
		require.Equal(t, want.uri, listed.Resources[i].URI)
		a := ask(t, url, "resources/read", want.uri, fmt.Sprintf(`"uri":%q`, want.uri), true)
		require.Contains(t, a.body, `\"name\":\"`+want.agent+`\"`)
	}
}

func TestResources(t *testing.T) {
	t.Parallel()
	url := serve(t, newStub(), mcp.Config{}).URL + "/mcp"
	for _, isModern := range []bool{false, true} {
		read := func(uri string) rpcResponse {
			return ask(t, url, "resources/read", uri, fmt.Sprintf(`"uri":%q`, uri), isModern)
		}
		var listed struct {
			Resources         []struct{ URI string }
			ResourceTemplates []struct{ URITemplate string }
		}
		require.NoError(t, json.Unmarshal(ask(t, url, "resources/list", "", "", isModern).Result, &listed))
		require.Equal(t, "fleet://agent/papi", listed.Resources[0].URI)
		require.Equal(t, "fleet://task/"+stubTask, listed.Resources[1].URI)
		require.NoError(t, json.Unmarshal(ask(t, url, "resources/templates/list", "", "", isModern).Result, &listed))
		require.Len(t, listed.ResourceTemplates, 4)
		for uri, want := range map[string]string{
			"fleet://agent/papi":                       `"status":"idle"`,
			"fleet://task/" + stubTask:                 `"summary":"Done"`,
			"fleet://task/" + stubTask + "/transcript": `"reads main.go"`,
			"fleet://task/" + stubTask + "/payload":    "the whole result",
		} {
			var r struct{ Contents []struct{ URI, Text string } }
			a := read(uri)
			require.NoError(t, json.Unmarshal(a.Result, &r), a.body)
			require.Equal(t, uri, r.Contents[0].URI)
			require.Contains(t, r.Contents[0].Text, want)
		}
		notFound := map[bool]int{false: -32002, true: -32602}[isModern]
		for _, part := range []string{"", "/transcript", "/payload"} {
			unknown, foreign := read("fleet://task/unknown"+part), read("fleet://task/foreign"+part)
			require.Equal(t, notFound, unknown.Error.Code)
			require.Equal(t, strings.ReplaceAll(unknown.body, "unknown", "foreign"), foreign.body, "callers must not be able to tell them apart")
		}
		require.Equal(t, notFound, read("fleet://agent/nobody").Error.Code)
		require.Equal(t, notFound, read("fleet://nothing").Error.Code)
	}
}
