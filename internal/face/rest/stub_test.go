package rest

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/fullstorydev/grpchan/inprocgrpc"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/face/facetest"
	"fleet/internal/waittest"
)

func TestMain(m *testing.M) { waittest.VerifyTestMain(m) }

type watchStream = grpc.ServerStreamingServer[fleetv1.WatchFleetResponse]

// stub is a server that answers unary calls with answerUnary and WatchFleet with answerWatch, and records the last request.
type stub struct {
	fleetv1.UnimplementedFleetServiceServer
	fleetv1.UnimplementedTokenServiceServer

	answerUnary func(method string, request proto.Message) (proto.Message, error)
	answerWatch func(*fleetv1.WatchFleetRequest, watchStream) error

	mu       sync.Mutex
	calls    int
	request  proto.Message
	metadata metadata.MD
}

func newStub() *stub {
	return &stub{answerUnary: func(string, proto.Message) (proto.Message, error) {
		return nil, status.Error(codes.Unimplemented, "the stub has no answer")
	}}
}

// conn returns an in-process connection to the stub, for a face.
func (s *stub) conn() grpc.ClientConnInterface {
	c := (&inprocgrpc.Channel{}).WithServerUnaryInterceptor(
		func(ctx context.Context, request any, info *grpc.UnaryServerInfo, _ grpc.UnaryHandler) (any, error) {
			s.record(ctx, request.(proto.Message))
			return s.answerUnary(info.FullMethod[strings.LastIndex(info.FullMethod, "/")+1:], request.(proto.Message))
		})
	fleetv1.RegisterFleetServiceServer(c, s)
	fleetv1.RegisterTokenServiceServer(c, s)
	fleetv1.RegisterLifecycleServiceServer(c, fleetv1.UnimplementedLifecycleServiceServer{}) // the interceptor answers for it
	fleetv1.RegisterProviderServiceServer(c, fleetv1.UnimplementedProviderServiceServer{})
	fleetv1.RegisterSessionServiceServer(c, fleetv1.UnimplementedSessionServiceServer{})
	fleetv1.RegisterSubagentServiceServer(c, fleetv1.UnimplementedSubagentServiceServer{})
	fleetv1.RegisterHealthServiceServer(c, fleetv1.UnimplementedHealthServiceServer{})
	return facetest.KeepStreams(c)
}

func (s *stub) record(ctx context.Context, request proto.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	s.request = proto.Clone(request)
	s.metadata, _ = metadata.FromIncomingContext(ctx)
}

func (s *stub) WatchFleet(r *fleetv1.WatchFleetRequest, out watchStream) error {
	s.record(out.Context(), r)
	return s.answerWatch(r, out)
}

// answerWith returns a function for stub.answerUnary that gives the same answer to every request.
func answerWith(m proto.Message, err error) func(string, proto.Message) (proto.Message, error) {
	return func(string, proto.Message) (proto.Message, error) { return m, err }
}

func newTestFace(t testing.TB, s *stub, config Config) *face {
	t.Helper()
	f, err := newFace(s.conn(), config)
	require.NoError(t, err)
	return f
}

// serve sends a request to the handler without a network.
func serve(h http.Handler, method, target, body string, headers ...string) *httptest.ResponseRecorder {
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	r := httptest.NewRequest(method, target, reader)
	r.Host = "localhost:8101"
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// errorObject is the JSON error object as a client reads it.
type errorObject struct {
	Error   string         `json:"error"`
	Message string         `json:"message"`
	Details map[string]any `json:"details"`
}

// readError reads the error object of an answer. It fails the test unless the object has exactly the three keys of the
// contract.
func readError(t testing.TB, w *httptest.ResponseRecorder) errorObject {
	t.Helper()
	require.Equal(t, "application/json", w.Header().Get("Content-Type"), w.Body.String())
	var keys map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &keys), w.Body.String())
	require.Len(t, keys, 3)
	var p errorObject
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &p))
	require.NotEmpty(t, p.Error)
	require.NotEmpty(t, p.Message)
	require.Contains(t, keys, "details")
	return p
}

// statusError returns an error with the details that the service's errors have.
func statusError(code codes.Code, reason fleetv1.ErrorReason, message string, details ...protoadapt.MessageV1) error {
	info := &errdetails.ErrorInfo{Reason: reason.String(), Domain: "fleet", Metadata: map[string]string{"agent_name": "papi"}}
	s, err := status.New(code, message).WithDetails(append([]protoadapt.MessageV1{info}, details...)...)
	if err != nil {
		return err
	}
	return s.Err()
}

// emptyAnswer returns an empty response message of the method.
func emptyAnswer(method string) (proto.Message, error) {
	m, err := protoregistry.GlobalTypes.FindMessageByName(protoreflect.FullName("fleet.v1." + method + "Response"))
	if err != nil {
		return nil, err
	}
	return m.New().Interface(), nil
}
