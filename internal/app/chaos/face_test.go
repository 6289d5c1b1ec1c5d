package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/face/facetest"
)

// face calls a method of the API at a server. A method of another service than FleetService has the name of its service before it:
// "LifecycleService/AgentStart".
type face func(ctx context.Context, s *server, method string, request, answer proto.Message) error

var faces = []face{overGRPC, overREST, overMCP}

// refusal is a server's answer that it has refused the request.
type refusal struct {
	Reason  string `json:"error"`
	Message string `json:"message"`
}

func (r *refusal) Error() string { return r.Reason + ": " + r.Message }

// reasonOf returns the reason of a refusal. It returns "" if the call succeeded, or if the caller cannot know whether
// it did.
func reasonOf(err error) string {
	r, ok := errors.AsType[*refusal](err)
	if !ok || slices.Contains([]string{"BACKEND_UNAVAILABLE", "DEADLINE_EXCEEDED", "INTERNAL"}, r.Reason) {
		return ""
	}
	return r.Reason
}

func overGRPC(ctx context.Context, s *server, method string, request, answer proto.Message) error {
	err := s.conn.Invoke(ctx, "/fleet.v1."+fullName(method), request, answer)
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			return &refusal{info.GetReason(), status.Convert(err).Message()}
		}
	}
	return err
}

// mustCall calls the method of FleetService over gRPC, which must succeed, and returns the answer.
func mustCall[Q, R any](t *testing.T, s *server, method func(fleetv1.FleetServiceClient, context.Context, Q, ...grpc.CallOption) (R, error), request Q) R {
	t.Helper()
	answer, err := method(fleetv1.NewFleetServiceClient(s.conn), t.Context(), request)
	require.NoError(t, err)
	return answer
}

// httpClient keeps only few idle connections, and only for a short time, because the test kills servers.
var httpClient = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 32, IdleConnTimeout: 5 * time.Second}}

var (
	marshalOptions   = protojson.MarshalOptions{UseProtoNames: true}
	unmarshalOptions = protojson.UnmarshalOptions{DiscardUnknown: true} // ignores unknown fields
)

// fullName returns the name of a method with its service, which is FleetService if the name has none.
func fullName(name string) string {
	if strings.Contains(name, "/") {
		return name
	}
	return "FleetService/" + name
}

// methodOf returns the descriptor of the method. It panics if the method does not exist.
func methodOf(name string) protoreflect.MethodDescriptor {
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName("fleet.v1." + strings.ReplaceAll(fullName(name), "/", ".")))
	if err != nil {
		panic(err)
	}
	return d.(protoreflect.MethodDescriptor) //nolint:forcetypeassert // the names are constants
}

// endpoints are the paths of MCP, by service.
var endpoints = map[string]string{"FleetService": "/mcp", "LifecycleService": "/mcp/lifecycle"}

// requestArgs returns the fields of the request, by their names in proto.
func requestArgs(request proto.Message) (args map[string]any, err error) {
	data, err := marshalOptions.Marshal(request)
	if err != nil {
		return nil, err
	}
	return args, json.Unmarshal(data, &args)
}

// restRequest returns the HTTP request that calls the method over REST.
func restRequest(ctx context.Context, s *server, method string, request proto.Message) (*http.Request, error) {
	args, err := requestArgs(request)
	if err != nil {
		return nil, err
	}
	return facetest.NewRequest(ctx, "http://"+s.http, methodOf(method), args)
}

func overREST(ctx context.Context, s *server, method string, request, answer proto.Message) error {
	r, err := restRequest(ctx, s, method, request)
	if err != nil {
		return err
	}
	data, code, err := sendHTTP(r)
	if err != nil {
		return err
	}
	if code != http.StatusOK {
		return parseRefusal(data)
	}
	return unmarshalOptions.Unmarshal(data, answer)
}

func sendHTTP(r *http.Request) (data []byte, code int, err error) {
	got, err := httpClient.Do(r)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = got.Body.Close() }()
	data, err = io.ReadAll(got.Body)
	return data, got.StatusCode, err
}

// parseRefusal returns the refusal in the answer. It returns another error if the answer has none.
func parseRefusal(data []byte) error {
	var r refusal
	if err := json.Unmarshal(data, &r); err != nil || r.Reason == "" {
		return fmt.Errorf("the answer has no reason: %.200s", data)
	}
	return &r
}

func overMCP(ctx context.Context, s *server, method string, request, answer proto.Message) error {
	args, err := requestArgs(request)
	if err != nil {
		return err
	}
	service, method, _ := strings.Cut(fullName(method), "/")
	tool := facetest.ToolName(method)
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": map[string]any{"name": tool, "arguments": args}})
	if err != nil {
		return err
	}
	endpoint := endpoints[service]
	if operator, _ := proto.GetExtension(methodOf(service+"/"+method).Options(), fleetv1.E_OperatorTool).(bool); operator {
		endpoint = "/mcp/all"
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.http+endpoint, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	data, _, err := sendHTTP(r)
	if err != nil {
		return err
	}
	if lines := bytes.Split(data, []byte("\n")); bytes.HasPrefix(data, []byte("event:")) { // the answer is the only event
		i := slices.IndexFunc(lines, func(line []byte) bool { return bytes.HasPrefix(line, []byte("data: ")) })
		data = bytes.TrimPrefix(lines[max(i, 0)], []byte("data: "))
	}
	var got struct {
		Error  any
		Result *struct {
			IsError bool
			Content []struct{ Text string }
		}
	}
	if err := json.Unmarshal(data, &got); err != nil || got.Result == nil || len(got.Result.Content) == 0 {
		return fmt.Errorf("not the result of a tool: %.300s", data)
	}
	text := []byte(got.Result.Content[0].Text)
	if got.Result.IsError {
		return parseRefusal(text)
	}
	return unmarshalOptions.Unmarshal(text, answer)
}
