// Package rest is the REST face: the API as JSON over HTTP, its OpenAPI document and page, and the health endpoints.
// The generated gateway turns HTTP into gRPC. This package checks requests before the gateway sees them, writes every
// response and error in the JSON form of package wire, and streams events.
//
// Package app serves it. It calls the gRPC services through an in-process connection. It must never import the core:
// the rules of a method are in its service.
package rest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/face/encoded"
)

// DefaultMaxBodyBytes is the default of Config.MaxBodyBytes.
const DefaultMaxBodyBytes = 16 << 20

// DefaultHeartbeat is the default of Config.Heartbeat.
const DefaultHeartbeat = 10 * time.Second

// Config holds the optional settings of the face. The zero value suits a server on this machine alone.
type Config struct {
	// MaxBodyBytes is the largest request body that is read, in bytes; 0 means DefaultMaxBodyBytes.
	MaxBodyBytes int64
	// Identify identifies the caller from the request's Authorization headers, before the body is read. method is the full gRPC
	// name of the method, such as "/fleet.v1.FleetService/ListAgents". Identify returns the context for the call, or a gRPC
	// status if the request is refused. The context is not nil even then. If Identify is nil, callers are not identified
	// before the body is read.
	Identify func(ctx context.Context, method string, authorization []string) (context.Context, error)
	// Challenge returns the header WWW-Authenticate that tells an unknown caller where to sign in. If Challenge is nil,
	// the header does not name a place to sign in.
	Challenge func(r *http.Request) string
	// Version is the server's version, shown on the index page.
	Version string
	// Heartbeat is the longest silence of a stream of server-sent events; 0 means DefaultHeartbeat.
	Heartbeat time.Duration
}

// face is the HTTP handler. It serves fixed pages itself and leaves the rest to the gateway.
type face struct {
	config      Config
	gateway     *runtime.ServeMux
	routes      []*route
	routesByKey map[string]*route       // by route.key
	pages       map[string]http.Handler // by path
	conn        grpc.ClientConnInterface
	health      fleetv1.HealthServiceClient

	openingTime  time.Duration // how long to wait for a stream's first message, which decides the HTTP status
	writeTimeout time.Duration // how long a client may take to receive one write of a stream
}

// Handler returns the REST face of the services behind conn. It starts nothing. A stream ends when its request's
// context is done, or when the service ends it.
func Handler(conn grpc.ClientConnInterface, config Config) (http.Handler, error) {
	return newFace(conn, config)
}

func newFace(conn grpc.ClientConnInterface, config Config) (*face, error) {
	config.MaxBodyBytes = cmp.Or(config.MaxBodyBytes, DefaultMaxBodyBytes)
	config.Heartbeat = cmp.Or(config.Heartbeat, DefaultHeartbeat)
	f := &face{
		config:       config,
		routesByKey:  map[string]*route{},
		conn:         conn,
		health:       fleetv1.NewHealthServiceClient(conn),
		openingTime:  100 * time.Millisecond,
		writeTimeout: 30 * time.Second,
	}
	var err error
	if f.routes, err = routesOf(fleetv1.File_fleet_v1_fleet_service_proto, fleetv1.File_fleet_v1_token_service_proto,
		fleetv1.File_fleet_v1_lifecycle_service_proto, fleetv1.File_fleet_v1_provider_service_proto,
		fleetv1.File_fleet_v1_session_service_proto, fleetv1.File_fleet_v1_subagent_service_proto); err != nil {
		return nil, err
	}
	for _, rt := range f.routes {
		for _, verb := range rt.verbs() {
			f.routesByKey[rt.key(verb)] = rt
		}
	}
	if err := f.registerServices(); err != nil {
		return nil, fmt.Errorf("rest: %w", err)
	}
	if f.pages, err = f.newPages(); err != nil {
		return nil, fmt.Errorf("rest: %w", err)
	}
	return f, nil
}

// registerServices creates the gateway and registers every service with it. Methods that stream get the handlers of this package instead
// of the gateway's.
func (f *face) registerServices() error {
	f.gateway = runtime.NewServeMux(
		runtime.WithMarshalerOption(runtime.MIMEWildcard, codec{}),
		runtime.WithMiddlewares(f.checkRequests),
		runtime.WithForwardResponseRewriter(encodedResponse),
		runtime.WithErrorHandler(handleCallError),
		runtime.WithRoutingErrorHandler(f.handleRoutingError),
		runtime.WithUnescapingMode(runtime.UnescapingModeAllExceptSlash),
		runtime.WithWriteContentLength(),
		runtime.WithDisablePathLengthFallback(),
		runtime.WithDisableHTTPMethodOverride(),
		// Headers do not become gRPC metadata, because a caller could otherwise forge the metadata that parts of the
		// server send each other. The exceptions are Authorization, which the gateway forwards by itself, and the trace
		// context.
		runtime.WithIncomingHeaderMatcher(dropHeader),
		runtime.WithOutgoingHeaderMatcher(dropHeader),
		runtime.WithOutgoingTrailerMatcher(dropHeader),
		runtime.WithMetadata(callMetadata),
	)
	// The gateway uses the first route that matches, beginning with the one that was registered last.
	ctx := context.Background() // the generated functions require one and do not use it
	if err := errors.Join(
		fleetv1.RegisterTokenServiceHandlerClient(ctx, f.gateway, fleetv1.NewTokenServiceClient(f.conn)),
		fleetv1.RegisterLifecycleServiceHandlerClient(ctx, f.gateway, fleetv1.NewLifecycleServiceClient(f.conn)),
		fleetv1.RegisterProviderServiceHandlerClient(ctx, f.gateway, fleetv1.NewProviderServiceClient(f.conn)),
		fleetv1.RegisterSessionServiceHandlerClient(ctx, f.gateway, fleetv1.NewSessionServiceClient(f.conn)),
		fleetv1.RegisterSubagentServiceHandlerClient(ctx, f.gateway, fleetv1.NewSubagentServiceClient(f.conn)),
		fleetv1.RegisterFleetServiceHandlerClient(ctx, f.gateway, fleetv1.NewFleetServiceClient(f.conn)),
	); err != nil {
		return err
	}
	for _, rt := range f.routes { // registered last, so these handlers come before the generated ones
		if !rt.method.IsStreamingServer() {
			continue
		}
		handler := f.streamHandler(rt)
		if rt.isDownload() {
			handler = f.downloadHandler(rt)
		}
		for _, verb := range rt.verbs() {
			if err := f.gateway.HandlePath(verb, rt.template, handler); err != nil {
				return err
			}
		}
	}
	return nil
}

// encodedResponse returns the encoded response that the service has put into the receiver of the call, or m if there is none.
func encodedResponse(ctx context.Context, m proto.Message) (any, error) {
	if a := encoded.ReceiverFrom(ctx).Response(); a != nil {
		return a, nil
	}
	return m, nil
}

func dropHeader(string) (string, bool) { return "", false }

// ServeHTTP answers a request.
func (f *face) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	if page, ok := f.pages[r.URL.Path]; ok {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			f.writeNotAllowed(w, r, []string{http.MethodGet, http.MethodHead})
			return
		}
		page.ServeHTTP(w, r)
		return
	}
	f.gateway.ServeHTTP(w, f.gatewayRequest(w, r))
}

// forwardedHeaders are the request headers that this face uses. All others are removed.
var forwardedHeaders = []string{
	"Accept", "Accept-Encoding", "Authorization", "Content-Encoding", "Content-Type",
	"If-Match", "If-None-Match", "If-Range", "Last-Event-Id", "Range", "Traceparent", "Tracestate",
}

// callMetadata returns the metadata of the call that a request becomes: the face, and the W3C trace context of the caller.
func callMetadata(_ context.Context, r *http.Request) metadata.MD {
	md := metadata.MD{"fleet-face": {"rest"}}
	for _, name := range []string{"Traceparent", "Tracestate"} {
		if v := r.Header.Get(name); v != "" {
			md.Set(name, v)
		}
	}
	return md
}

// clientRequestKey is the context key of the client's unchanged request, which Config.Challenge needs.
type clientRequestKey struct{}

// gatewayRequest returns the request without the headers that the gateway would turn into metadata or deadlines
// (Grpc-Timeout, X-Forwarded-Host and others), with a limit on the body, and with the path as the client escaped it.
// The gateway would unescape an unescaped path a second time.
func (f *face) gatewayRequest(w http.ResponseWriter, r *http.Request) *http.Request {
	in := r.WithContext(r.Context())
	if f.config.Challenge != nil {
		in = r.WithContext(context.WithValue(r.Context(), clientRequestKey{}, r))
	}
	in.Host, in.RemoteAddr, in.Header = "", "", http.Header{}
	for _, name := range forwardedHeaders {
		if values := r.Header.Values(name); len(values) > 0 {
			in.Header[name] = values
		}
	}
	address := *r.URL
	address.RawPath = address.EscapedPath()
	in.URL = &address
	in.Body = http.MaxBytesReader(w, r.Body, f.config.MaxBodyBytes)
	return in
}

// IsProbe reports whether the path is a health probe. A probe reveals nothing, so it may be called with any host name.
func IsProbe(path string) bool { return path == "/healthz" || path == "/readyz" }
