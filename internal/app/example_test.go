package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"os"

	mcpclient "github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/app"
	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/waittest"
)

// A program that calls gRPC uses the generated client. This one creates an agent, gives it a task, waits, and reads the result.
func Example_grpc() {
	server, stop := serve()
	defer stop()
	ctx := context.Background()

	conn, err := grpc.NewClient(server.GRPCAddr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	check(err)
	defer conn.Close()
	client := fleetv1.NewFleetServiceClient(conn)
	_, err = client.CreateAgent(ctx, &fleetv1.CreateAgentRequest{Name: "ada", Project: "Setup", Spec: "Keep the tests green"})
	check(err)
	started, err := client.StartAgentTask(ctx, &fleetv1.StartAgentTaskRequest{AgentName: "ada", TaskDescription: "Fix the login form"})
	check(err)
	id := started.GetTask().GetId()
	_, err = client.WaitTasks(ctx, &fleetv1.WaitTasksRequest{TaskIds: []string{id}})
	check(err)
	shown, err := client.ShowTask(ctx, &fleetv1.ShowTaskRequest{TaskId: id})
	check(err)
	fmt.Println(shown.GetTask().GetStatus(), shown.GetTask().GetSummary())
	// Output: completed Handled: Fix the login form
}

// REST needs no generated code. The OpenAPI document of a server is at /openapi.json.
func Example_rest() {
	server, stop := serve()
	defer stop()

	call := func(method, path string, body, answer any) {
		data, err := json.Marshal(body)
		check(err)
		request, err := http.NewRequest(method, "http://"+server.HTTPAddr()+path, bytes.NewReader(data))
		check(err)
		request.Header.Set("Content-Type", "application/json")
		response, err := http.DefaultClient.Do(request)
		check(err)
		defer response.Body.Close()
		check(json.NewDecoder(response.Body).Decode(answer))
	}
	var created struct{ Message string }
	call(http.MethodPost, "/v1/agents", map[string]string{"name": "ada", "project": "Setup", "spec": "Keep the tests green"}, &created)
	fmt.Println(created.Message)
	var refused struct{ Error, Message string }
	call(http.MethodPost, "/v1/agents/ada/tasks", map[string]string{"task_descriptions": "Fix the login form"}, &refused)
	fmt.Println(refused.Error)
	fmt.Println(refused.Message)
	// Output:
	// Agent 'ada' created successfully
	// INVALID_ARGUMENT
	// unknown field "task_descriptions": did you mean "task_description"?
}

// For an MCP client, each method of the API is a tool.
func Example_mcp() {
	server, stop := serve()
	defer stop()
	ctx := context.Background()

	client, err := mcpclient.NewStreamableHttpClient("http://" + server.HTTPAddr() + "/mcp")
	check(err)
	defer client.Close()
	_, err = client.Initialize(ctx, mcp.InitializeRequest{Params: mcp.InitializeParams{ClientInfo: mcp.Implementation{Name: "example"}}})
	check(err)
	call := mcp.CallToolRequest{}
	call.Params.Name = "create_agent"
	call.Params.Arguments = map[string]string{"name": "ada", "project": "Setup", "spec": "Keep the tests green"}
	result, err := client.CallTool(ctx, call)
	check(err)
	agent := result.StructuredContent.(map[string]any)["agent"].(map[string]any)
	fmt.Println(agent["name"], agent["status"])
	// Output: ada idle
}

// serve starts a server whose agents live in a fake place. stop ends the server and deletes its data.
func serve() (server *app.Server, stop func()) {
	dir, err := os.MkdirTemp("", "fleet")
	check(err)
	cfg := app.DefaultConfig()
	cfg.HTTP, cfg.GRPC, cfg.Data = "127.0.0.1:0", "127.0.0.1:0", dir
	place := fake.New(fake.Config{})
	a, err := app.Open(context.Background(), cfg, app.Options{Places: []fleet.Place{place}, CloseGrace: waittest.Limit})
	check(err)
	server, err = a.Listen("example")
	check(err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx) }()
	return server, func() {
		cancel()
		check(<-ended)
		check(os.RemoveAll(dir))
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
