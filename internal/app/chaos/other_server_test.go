package chaos

import (
	"context"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/waittest"
)

// TestAgentOfAnotherServer creates agents, and reads the output, the changes, the log and the bundle of one of them, through a
// server that does not run on their machine. Then it restarts the agent in a role of its project, and lands its work. While the
// server on the agent's machine is down, errors must name that server.
func TestAgentOfAnotherServer(t *testing.T) {
	t.Parallel()
	db := startPostgres(t)
	dir := t.TempDir()
	repo := filepath.Join(dir, "repo")
	git(t, "", "init", "-q", repo)
	git(t, repo, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "first")
	var servers [2]*server
	for i, name := range []string{"one", "two"} {
		s := newServer(t, name, filepath.Join(dir, name))
		s.store, s.repository = db.URL("postgres"), repo
		s.startServing(t)
		servers[i] = s
	}
	one, two := servers[0], servers[1]
	createOnOtherServer(t, two)
	started, waited := &fleetv1.StartAgentTaskResponse{}, &fleetv1.WaitTasksResponse{}
	require.NoError(t, overREST(t.Context(), two, "StartAgentTask", &fleetv1.StartAgentTaskRequest{
		AgentName: "papi", TaskDescription: "echo raw; echo new >file; git add file; git -c user.name=a -c user.email=a@b commit -qm second",
	}, started))
	task := started.GetTask().GetId()
	for !waited.GetDone() { // a call waits for a limited time
		waited = &fleetv1.WaitTasksResponse{}
		require.NoError(t, overMCP(t.Context(), two, "WaitTasks", &fleetv1.WaitTasksRequest{TaskIds: []string{task}}, waited))
	}
	require.Equal(t, fleetv1.Task_completed, waited.GetTasks()[0].GetStatus(), waited)

	readFromOtherServer(t, one, two, task)

	restarted := mustCall(t, two, fleetv1.FleetServiceClient.RestartAgent, &fleetv1.RestartAgentRequest{AgentName: "papi", Role: "OPERATOR"})
	require.Equal(t, "operator", restarted.GetAgent().GetRole())
	err := overGRPC(t.Context(), two, "RestartAgent", &fleetv1.RestartAgentRequest{AgentName: "papi", Role: "nobody"}, restarted)
	require.ErrorContains(t, err, "operator", "the error must list the project's roles")

	err = overGRPC(t.Context(), two, "LandTasks", &fleetv1.LandTasksRequest{TaskIds: []string{task}, DryRun: true}, &fleetv1.LandTasksResponse{})
	require.ErrorContains(t, err, `the server "one"`, "only the server on the agent's machine can try the landing")
	require.NoError(t, overREST(t.Context(), two, "LandTasks", &fleetv1.LandTasksRequest{TaskIds: []string{task}}, &fleetv1.LandTasksResponse{}))
	var shown *fleetv1.ShowTaskResponse
	waittest.Until(t, "the server sends no signal when work has landed", func() bool {
		shown = mustCall(t, two, fleetv1.FleetServiceClient.ShowTask, &fleetv1.ShowTaskRequest{TaskId: task})
		return shown.GetTask().GetLanding().GetState() == fleetv1.Landing_landed
	})
	require.Equal(t, git(t, repo, "rev-parse", "HEAD"), shown.GetTask().GetLanding().GetLandedSha())
	require.Equal(t, git(t, repo, "branch", "--show-current"), shown.GetTask().GetLanding().GetInto())

	one.Kill()
	for name, invoke := range map[string]face{"gRPC": overGRPC, "REST": overREST, "MCP": overMCP} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		err := invoke(ctx, two, "ShowTaskOutput", &fleetv1.ShowTaskOutputRequest{TaskId: task}, &fleetv1.ShowTaskOutputResponse{})
		require.ErrorContains(t, err, "BACKEND_UNAVAILABLE", name)
		require.ErrorContains(t, err, "the server one", name)
		err = invoke(ctx, two, "ShowAgentLog", &fleetv1.ShowAgentLogRequest{AgentName: "papi"}, &fleetv1.ShowAgentLogResponse{})
		cancel()
		require.ErrorContains(t, err, "BACKEND_UNAVAILABLE", name)
		require.ErrorContains(t, err, "the server one", name)
	}
	one.startServing(t) // other servers reach it at another address than before
	output := &fleetv1.ShowTaskOutputResponse{}
	waittest.Until(t, "no server says that it knows the new address", func() bool {
		return overGRPC(t.Context(), two, "ShowTaskOutput", &fleetv1.ShowTaskOutputRequest{TaskId: task}, output) == nil
	})
	require.Equal(t, "raw\n", output.GetOutput())
}

// createOnOtherServer creates agents on the machine of the server one through the server two: papi with a repository, and another one
// over each face. Projects that do not exist must be refused.
func createOnOtherServer(t *testing.T, two *server) {
	t.Helper()
	create := func(invoke face, name, project string) error {
		created := &fleetv1.CreateAgentResponse{}
		err := invoke(t.Context(), two, "CreateAgent", &fleetv1.CreateAgentRequest{Name: name, Project: project, Spec: "x"}, created)
		if err == nil {
			require.Equal(t, fleetv1.Agent_idle, created.GetAgent().GetStatus(), created)
			require.Equal(t, "local@one", created.GetAgent().GetPlace(), created)
		}
		return err
	}
	require.NoError(t, create(overGRPC, "papi", "local@one/repo"))
	for name, invoke := range map[string]face{"gRPC": overGRPC, "REST": overREST, "MCP": overMCP} {
		require.NoError(t, create(invoke, "over-"+name, "LOCAL@ONE/shell"))
		require.ErrorContains(t, create(invoke, "mami", "local@one/nothing"), "PROJECT_NOT_FOUND", name)
		require.ErrorContains(t, create(invoke, "mami", "local@nowhere/repo"), "PROJECT_NOT_FOUND", name)
		roles, listed := &fleetv1.ListAgentRolesResponse{}, &fleetv1.ListAgentsResponse{}
		require.NoError(t, invoke(t.Context(), two, "ListAgentRoles", &fleetv1.ListAgentRolesRequest{Project: "local@one/shell"}, roles), name)
		require.Equal(t, "operator", roles.GetRoles()[0].GetName(), name)
		require.NoError(t, invoke(t.Context(), two, "ListAgents", &fleetv1.ListAgentsRequest{Project: "local@one/repo"}, listed), name)
		require.Len(t, listed.GetAgents(), 1, name)
		tasks := &fleetv1.ListTasksRequest{Project: "local@one/shell"}
		require.NoError(t, invoke(t.Context(), two, "ListTasks", tasks, &fleetv1.ListTasksResponse{}), name)
	}
}

// readFromOtherServer reads the output, the changes, the log and the bundle of papi, which works on the machine of the server one, through
// the server two.
func readFromOtherServer(t *testing.T, one, two *server, task string) {
	t.Helper()
	for name, invoke := range map[string]face{"gRPC": overGRPC, "REST": overREST, "MCP": overMCP} {
		output, changes := &fleetv1.ShowTaskOutputResponse{}, &fleetv1.ShowTaskChangesResponse{}
		require.NoError(t, invoke(t.Context(), two, "ShowTaskOutput", &fleetv1.ShowTaskOutputRequest{TaskId: task}, output), name)
		require.Equal(t, "raw\n", output.GetOutput(), name)
		require.NoError(t, invoke(t.Context(), two, "ShowTaskChanges", &fleetv1.ShowTaskChangesRequest{TaskId: task, Patch: true}, changes), name)
		require.Contains(t, changes.GetPatch(), "+new", name)
		here, there := &fleetv1.ShowAgentLogResponse{}, &fleetv1.ShowAgentLogResponse{}
		require.NoError(t, invoke(t.Context(), one, "ShowAgentLog", &fleetv1.ShowAgentLogRequest{AgentName: "papi"}, here), name)
		require.NoError(t, invoke(t.Context(), two, "ShowAgentLog", &fleetv1.ShowAgentLogRequest{AgentName: "papi"}, there), name)
		require.NotEmpty(t, here.GetLines(), name)
		require.Equal(t, here.GetLines(), there.GetLines(), name)
	}
	r, err := restRequest(t.Context(), two, "DownloadAgentBundle", &fleetv1.DownloadAgentBundleRequest{AgentName: "papi"})
	require.NoError(t, err)
	bundle, code, err := sendHTTP(r)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, code, string(bundle))
	require.Contains(t, string(bundle[:16]), "git bundle")
}
