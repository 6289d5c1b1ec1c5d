package wire_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/face/wire"
)

func TestMarshalIsTheContractsForm(t *testing.T) {
	t.Parallel()
	at := timestamppb.New(time.Date(2025, 10, 29, 10, 0, 0, 0, time.UTC))
	got, err := wire.Marshal(&fleetv1.ShowAgentResponse{Agent: &fleetv1.Agent{
		Name: "papi", WorkspaceId: "w-1", Status: fleetv1.Agent_busy, Role: "coder", Project: "Setup", Spec: "a <b> & \"c\"",
		CurrentTask: wrapperspb.String("Write tests"), CreatedAt: at, UpdatedAt: at,
		Metadata: map[string]string{"fleet_mcp_pull_request_url": "u", "fleet_mcp_agent_spec": "s"}, State: fleetv1.Agent_running,
	}})
	require.NoError(t, err)
	require.Equal(t, `{"agent":{"name":"papi","workspace_id":"w-1","status":"busy","role":"coder","project":"Setup",`+
		`"spec":"a <b> & \"c\"","current_task":"Write tests","created_at":"2025-10-29T10:00:00Z","updated_at":"2025-10-29T10:00:00Z",`+
		`"metadata":{"fleet_mcp_agent_spec":"s","fleet_mcp_pull_request_url":"u"},"state":"running","state_reason":"",`+
		`"current_task_id":null,"owner":"","location":"","place":"","shares":[],"links":[]},"observed_at":null,"rules":[]}`, string(got))
}

func TestMarshalWritesNullsNumbersAndEmptyLists(t *testing.T) {
	t.Parallel()
	got, err := wire.Marshal(&fleetv1.ListAgentsResponse{TotalCount: 3})
	require.NoError(t, err)
	require.Equal(t, `{"agents":[],"total_count":3,"observed_at":null,"places":[]}`, string(got))

	got, err = wire.Marshal(&fleetv1.Task{Id: "1", Status: fleetv1.Task_pending, Source: fleetv1.Task_human, CostUsd: 0.25})
	require.NoError(t, err)
	require.Equal(t, `{"id":"1","agent_name":"","summary":"","status":"pending","source":"human","created_at":null,`+
		`"started_at":null,"completed_at":null,"reason":"","payload_size":0,"cost_usd":0.25,"description":"","owner":""}`, string(got))
}

func TestMarshalOmitsUnsetOptionalFields(t *testing.T) {
	t.Parallel()
	got, err := wire.Marshal(&fleetv1.TaskDetail{})
	require.NoError(t, err)
	require.NotContains(t, string(got), "exit_code")
	require.NotContains(t, string(got), `"payload"`)
}
