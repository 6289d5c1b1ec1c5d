package app

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/face/facetest"
)

// call is a call of an API method, for any face.
type call struct {
	method protoreflect.MethodDescriptor
	args   map[string]any
	caller string // name of a token; empty: without a token
}

// reply is the answer to a call, from any face.
type reply struct {
	answer any // decoded JSON; nil if there is an error
	err    *apiError
	header http.Header // of the HTTP answer, with REST
}

// apiError is the error object of a call, with the codes of its face.
type apiError struct {
	Reason  string         `json:"error"`
	Message string         `json:"message"`
	Details map[string]any `json:"details"`
	code    *codes.Code    // with gRPC
	http    int            // the status, with REST
}

func (e *apiError) String() string {
	if e == nil {
		return "no error"
	}
	return fmt.Sprintf("%s: %s %v", e.Reason, e.Message, e.Details)
}

// faces has the function with which each face calls a method. An error of such a function means that the face has violated the
// protocol.
var faces = map[string]func(*testFleet, context.Context, call) (reply, error){
	"grpc": (*testFleet).callGRPC,
	"rest": (*testFleet).callREST,
	"sse":  (*testFleet).callSSE,
	"mcp":  (*testFleet).callMCP,
}

// methods are the methods of the API by tool name, with or without a tool. If several toolsets have a tool with the same name, the tools
// of all but the first toolset have the key "toolset/name".
var methods = func() map[string]protoreflect.MethodDescriptor {
	all := map[string]protoreflect.MethodDescriptor{}
	for _, m := range apiMethods() {
		name := facetest.ToolName(m.Name())
		if all[name] != nil {
			name = toolsetOf(m) + "/" + name
		}
		all[name] = m
	}
	return all
}()

// apiMethods returns the methods of the API, ordered by the names of their services. So the methods of FleetService come first.
func apiMethods() (all []protoreflect.MethodDescriptor) {
	var services []protoreflect.ServiceDescriptor
	protoregistry.GlobalFiles.RangeFilesByPackage("fleet.v1", func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			services = append(services, file.Services().Get(i))
		}
		return true
	})
	slices.SortFunc(services, func(a, b protoreflect.ServiceDescriptor) int {
		return strings.Compare(string(a.Name()), string(b.Name()))
	})
	for _, s := range services {
		for i := range s.Methods().Len() {
			all = append(all, s.Methods().Get(i))
		}
	}
	return all
}

// toolsetOf returns the toolset of the method's service, or "" if the service has none.
func toolsetOf(m protoreflect.MethodDescriptor) string {
	name, _ := proto.GetExtension(m.Parent().Options(), fleetv1.E_Toolset).(string)
	return name
}

// hasTool reports whether the method is an MCP tool.
func hasTool(m protoreflect.MethodDescriptor) bool {
	return toolsetOf(m) != "" && !boolOption(m, fleetv1.E_NoTool)
}

// offers reports whether the face has the method. Only gRPC has streams in both directions.
func offers(face string, m protoreflect.MethodDescriptor) bool {
	if face == "mcp" {
		return hasTool(m)
	}
	return face == "grpc" || !m.IsStreamingClient()
}

// boolOption returns the value of a boolean option of the method.
func boolOption(m protoreflect.MethodDescriptor, option protoreflect.ExtensionType) bool {
	value, _ := proto.GetExtension(m.Options(), option).(bool)
	return value
}

// isDownload reports whether the method returns content instead of messages.
func isDownload(m protoreflect.MethodDescriptor) bool {
	return m.Output().FullName() == "google.api.HttpBody"
}

// decodeJSON parses exactly one JSON value. Its numbers are json.Number.
func decodeJSON(data []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("%w in %.200s", err, data)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("more than one JSON value: %.200s", data)
	}
	return v, nil
}

// readError parses an error object. The object must have exactly the three keys of wire.Error.
func readError(data []byte) (*apiError, error) {
	v, err := decodeJSON(data)
	if err != nil {
		return nil, err
	}
	m, _ := v.(map[string]any)
	for _, key := range []string{"error", "message", "details"} {
		if _, ok := m[key]; !ok || len(m) != 3 {
			return nil, fmt.Errorf("not an error object: %.500s", data)
		}
	}
	e := &apiError{}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	return e, d.Decode(e)
}

// callGRPC calls the method over the network with a client that uses only the method's descriptor.
func (f *testFleet) callGRPC(ctx context.Context, c call) (reply, error) {
	return f.callOver(ctx, f.conn, c, dynamicpb.NewMessage(c.method.Input()), dynamicpb.NewMessage(c.method.Output()))
}

// callInProcess calls the method over the in-process connection, which requires the generated types.
func (f *testFleet) callInProcess(ctx context.Context, c call) (reply, error) {
	request, err := protoregistry.GlobalTypes.FindMessageByName(c.method.Input().FullName())
	if err != nil {
		return reply{}, err
	}
	answer, err := protoregistry.GlobalTypes.FindMessageByName(c.method.Output().FullName())
	if err != nil {
		return reply{}, err
	}
	return f.callOver(ctx, f.Conn(), c, request.New().Interface(), answer.New().Interface())
}

// callOver calls the method over the connection. request and answer are empty messages of the method's types.
func (f *testFleet) callOver(ctx context.Context, conn grpc.ClientConnInterface, c call, request, answer proto.Message) (reply, error) {
	data, err := json.Marshal(c.args)
	if err != nil {
		return reply{}, err
	}
	if err := protojson.Unmarshal(data, request); err != nil {
		return reply{}, fmt.Errorf("gRPC cannot express this: %w", err)
	}
	if err := facetest.Invoke(f.authContext(ctx, c.caller), conn, c.method, request, answer); err != nil {
		e, err := grpcError(err)
		return reply{err: e}, err
	}
	if data, err = (protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}).Marshal(answer); err != nil {
		return reply{}, err
	}
	v, err := decodeJSON(data)
	return reply{answer: v}, err
}

// grpcError reads the error object from a status. The status must have one ErrorInfo of Fleet's domain, and a
// BadRequest for the field of an invalid value. It may have a RetryInfo and a NextStep. The message must end with the NextStep.
func grpcError(err error) (*apiError, error) {
	s := status.Convert(err)
	code := s.Code()
	e := &apiError{Message: s.Message(), code: &code}
	details := map[string]any{}
	violatedFields := map[string]bool{}
	for _, d := range s.Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			if e.Reason != "" || d.GetDomain() != "fleet" {
				return nil, fmt.Errorf("more than one ErrorInfo, or one of another domain: %v", s)
			}
			e.Reason = d.GetReason()
			for k, v := range d.GetMetadata() {
				details[k] = v
			}
		case *errdetails.BadRequest:
			for _, v := range d.GetFieldViolations() {
				violatedFields[v.GetField()] = true
			}
		case *errdetails.RetryInfo:
			details["retry_after_seconds"] = json.Number(fmt.Sprint(int(math.Ceil(d.GetRetryDelay().AsDuration().Seconds()))))
		case *fleetv1.NextStep:
			plain := strings.NewReplacer("{", "", "}", "").Replace(d.GetText())
			if !strings.HasSuffix(s.Message(), "; "+plain) {
				return nil, fmt.Errorf("the message %q does not end with the next step %q", s.Message(), plain)
			}
		default:
			return nil, fmt.Errorf("unexpected detail %T", d)
		}
	}
	if e.Reason == "" {
		return nil, fmt.Errorf("a status without an ErrorInfo: %v", s)
	}
	if field, ok := details["field"].(string); ok && code == codes.InvalidArgument && !violatedFields[field] {
		return nil, fmt.Errorf("no BadRequest names the field %s: %v", field, s)
	}
	if len(details) > 0 {
		e.Details = details
	}
	return e, nil
}

// callREST calls the method over HTTP, as its google.api.http option says.
func (f *testFleet) callREST(ctx context.Context, c call) (reply, error) {
	return f.callHTTP(ctx, c, "application/json")
}

// callSSE is callREST with server-sent events for streams.
func (f *testFleet) callSSE(ctx context.Context, c call) (reply, error) {
	return f.callHTTP(ctx, c, "text/event-stream")
}

func (f *testFleet) callHTTP(ctx context.Context, c call, accept string) (reply, error) {
	r, err := facetest.NewRequest(ctx, "http://"+f.HTTPAddr(), c.method, c.args)
	if err != nil {
		return reply{}, err
	}
	if a := f.authorization(c.caller); a != "" {
		r.Header.Set("Authorization", a)
	}
	r.Header.Set("Accept", accept)
	if isDownload(c.method) {
		r.Header.Set("Accept-Encoding", "gzip") // with this header, the client does not decompress the answer
	}
	resp, err := f.http.Do(r)
	if err != nil {
		return reply{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return reply{}, err
	}
	out := reply{header: resp.Header}
	if resp.StatusCode != http.StatusOK {
		if out.err, err = readError(data); err == nil {
			out.err.http = resp.StatusCode
		}
		return out, err
	}
	switch media := resp.Header.Get("Content-Type"); {
	case isDownload(c.method):
		out.answer, err = map[string]any{"content_type": media, "data": base64.StdEncoding.EncodeToString(data), "extensions": []any{}}, nil
	case media == "application/json" && (!c.method.IsStreamingServer() || boolOption(c.method, fleetv1.E_LastIsResult)):
		out.answer, err = decodeJSON(data)
	case media == "application/x-ndjson" && accept != "text/event-stream":
		out.answer, out.err, err = mergeLines(data)
	case media == "text/event-stream" && accept == media && boolOption(c.method, fleetv1.E_LastIsResult):
		out.answer, out.err, err = lastSSE(data)
	case media == "text/event-stream" && accept == media:
		out.answer, out.err, err = mergeSSE(data)
	default:
		err = fmt.Errorf("the answer has the type %q", media)
	}
	return out, err
}

// mergeLines merges the lines of a stream of events into one answer, like that of an MCP tool. If an error occurs after the HTTP status
// was sent, the last line is the error.
func mergeLines(data []byte) (any, *apiError, error) {
	events, cursor := []any{}, any(nil)
	for line := range bytes.Lines(data) {
		v, err := decodeJSON(line)
		if err != nil {
			return nil, nil, err
		}
		m, _ := v.(map[string]any)
		if _, callErr := m["error"]; callErr {
			e, err := readError(line)
			return nil, e, err
		}
		more, _ := m["events"].([]any)
		events = append(events, more...)
		cursor = m["cursor"]
	}
	return map[string]any{"events": events, "cursor": cursor}, nil, nil
}

// mergeSSE merges server-sent events like mergeLines. Each event must have its cursor as its id, and its type as its
// name. The name of an error must be "error", and the name of the end of the stream "end".
func mergeSSE(data []byte) (any, *apiError, error) {
	events, cursor := []any{}, ""
	name, id := "", ""
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		key, value, _ := strings.Cut(lines.Text(), ": ")
		switch key {
		case "id":
			id, cursor = value, value
		case "event":
			name = value
		case "":
			name, id = "", ""
		case "data":
			if name == "error" {
				e, err := readError([]byte(value))
				return nil, e, err
			}
			v, err := decodeJSON([]byte(value))
			if err != nil {
				return nil, nil, err
			}
			m, _ := v.(map[string]any)
			if m["cursor"] != id || name != "end" && m["type"] != name {
				return nil, nil, fmt.Errorf("id %s and event %s do not match %s", id, name, value)
			}
			if name != "end" {
				events = append(events, v)
			}
		}
	}
	return map[string]any{"events": events, "cursor": cursor}, nil, lines.Err()
}

// lastSSE returns the last message of a stream of server-sent events. The name of each event must be the type of its
// message, and that of the last event must be "complete". An event with the name "error" has the error of the call.
func lastSSE(data []byte) (answer any, callErr *apiError, err error) {
	name := ""
	for line := range strings.Lines(string(data)) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch key {
		case "event":
			name = value
		case "data":
			if name == "error" {
				callErr, err = readError([]byte(value))
				return nil, callErr, err
			}
			if answer, err = decodeJSON([]byte(value)); err != nil {
				return nil, nil, err
			}
			if m, _ := answer.(map[string]any); m["type"] != name {
				return nil, nil, fmt.Errorf("event %s does not match %s", name, value)
			}
		}
	}
	if name != "complete" {
		return nil, nil, fmt.Errorf("the last event is %q", name)
	}
	return answer, nil, nil
}

// callMCP calls the method's tool with an MCP client.
func (f *testFleet) callMCP(ctx context.Context, c call) (reply, error) {
	mc, err := f.mcpClient(ctx, c.caller, toolsetOf(c.method))
	if err != nil {
		return reply{}, err
	}
	r := mcp.CallToolRequest{}
	r.Params.Name, r.Params.Arguments = facetest.ToolName(c.method.Name()), c.args
	result, err := mc.CallTool(ctx, r)
	if err != nil {
		return reply{}, err
	}
	text, ok := mcp.AsTextContent(first(result.Content))
	if note, isText := mcp.AsTextContent(result.Content[len(result.Content)-1]); !ok || !isText ||
		len(result.Content) > 1 && !strings.HasPrefix(note.Text, "This answer was shortened") {
		return reply{}, fmt.Errorf("the content is not one text, with a note if it was shortened: %.500v", result.Content)
	}
	if result.IsError {
		if result.StructuredContent != nil {
			return reply{}, fmt.Errorf("an error with structured content, which clients check against the output schema: %v", result.StructuredContent)
		}
		e, err := readError([]byte(text.Text))
		return reply{err: e}, err
	}
	answer, err := decodeJSON([]byte(text.Text))
	if err != nil {
		return reply{}, err
	}
	structured, err := json.Marshal(result.StructuredContent)
	if err != nil {
		return reply{}, err
	}
	structuredAnswer, err := decodeJSON(structured)
	if err != nil {
		return reply{}, err
	}
	if diff := exactMismatches(answer, structuredAnswer); len(diff) > 0 {
		return reply{}, fmt.Errorf("text and structured content differ: %v", diff)
	}
	return reply{answer: answer}, nil
}

// first returns the first item of the list, or the zero value if the list is empty.
func first[T any](list []T) (v T) {
	if len(list) > 0 {
		v = list[0]
	}
	return v
}
