// Package rest is the REST face: the API as JSON over HTTP, its description for programs and for people, and the
// server's health. The generated gateway turns HTTP into gRPC; this package checks what a client sends before the
// gateway sees it, gives every answer and every error the form of package wire, and streams events. It decides nothing
// about the fleet: whatever a method does or refuses comes from the gRPC service behind the connection.
package rest

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	fleetv1 "fleet/gen/fleet/v1"
)

// DefaultMaxBodyBytes is the largest request body that is read when the Config does not say otherwise.
const DefaultMaxBodyBytes = 16 << 20

// Config is what an operator may want otherwise. The zero value is for a server on this machine alone.
type Config struct {
	// Hosts are the names, without a port, under which clients reach the server. The names of the loopback interface
	// always work. A request for any other host is refused, so that a web page cannot reach a server on its visitor's
	// machine by letting its own name point there (DNS rebinding).
	Hosts []string
	// MaxBodyBytes is the largest request body that is read; DefaultMaxBodyBytes when 0.
	MaxBodyBytes int64
	// Identify finds out who makes the call of the method, by the values of the request's Authorization header, before the
	// body is read. The call is made with the context that it returns. An error, a gRPC status, refuses the request. Nil:
	// every request is read.
	Identify func(ctx context.Context, method string, authorization []string) (context.Context, error)
	// Version of the server, for the index page.
	Version string
}

// face is the handler: fixed pages, and the gateway for the rest.
type face struct {
	config  Config
	gateway *runtime.ServeMux
	routes  []*route
	byKey   map[string]*route // by the route's keys
	guard   *guard
	pages   map[string]http.Handler // by path
	conn    grpc.ClientConnInterface
	fleet   fleetv1.FleetServiceClient
	health  fleetv1.HealthServiceClient

	opening   time.Duration // how long a stream's first answer decides the HTTP status
	heartbeat time.Duration // how long a stream of server-sent events may be silent
	patience  time.Duration // how long a client may take for what a stream writes
}

// Handler returns the REST face of the services behind conn. It starts nothing. Streams end when their request's
// context does, or when the service ends them.
func Handler(conn grpc.ClientConnInterface, config Config) (http.Handler, error) {
	return newFace(conn, config)
}

func newFace(conn grpc.ClientConnInterface, config Config) (*face, error) {
	if config.MaxBodyBytes == 0 {
		config.MaxBodyBytes = DefaultMaxBodyBytes
	}
	f := &face{
		config:    config,
		byKey:     map[string]*route{},
		guard:     newGuard(config.Hosts),
		conn:      conn,
		fleet:     fleetv1.NewFleetServiceClient(conn),
		health:    fleetv1.NewHealthServiceClient(conn),
		opening:   100 * time.Millisecond,
		heartbeat: 10 * time.Second,
		patience:  30 * time.Second,
	}
	var err error
	if f.routes, err = routesOf(fleetv1.File_fleet_v1_fleet_service_proto, fleetv1.File_fleet_v1_token_service_proto,
		fleetv1.File_fleet_v1_lifecycle_service_proto, fleetv1.File_fleet_v1_provider_service_proto,
		fleetv1.File_fleet_v1_session_service_proto, fleetv1.File_fleet_v1_subagent_service_proto); err != nil {
		return nil, err
	}
	for _, rt := range f.routes {
		for _, verb := range rt.verbs() {
			f.byKey[rt.key(verb)] = rt
		}
	}
	if err := f.register(conn); err != nil {
		return nil, fmt.Errorf("rest: %w", err)
	}
	if f.pages, err = f.newPages(); err != nil {
		return nil, fmt.Errorf("rest: %w", err)
	}
	return f, nil
}

// register makes the gateway, with every service on it.
func (f *face) register(conn grpc.ClientConnInterface) error {
	f.gateway = runtime.NewServeMux(
		runtime.WithMarshalerOption(runtime.MIMEWildcard, codec{}),
		runtime.WithMiddlewares(f.checked),
		runtime.WithErrorHandler(f.callFailed),
		runtime.WithRoutingErrorHandler(f.routingFailed),
		runtime.WithUnescapingMode(runtime.UnescapingModeAllExceptSlash),
		runtime.WithWriteContentLength(),
		runtime.WithDisablePathLengthFallback(),
		runtime.WithDisableHTTPMethodOverride(),
		// Headers are not metadata, nor the other way: a caller could forge what the server's own parts tell each other.
		// The one exception is Authorization, which the gateway forwards by itself.
		runtime.WithIncomingHeaderMatcher(none),
		runtime.WithOutgoingHeaderMatcher(none),
		runtime.WithOutgoingTrailerMatcher(none),
		runtime.WithMetadata(func(context.Context, *http.Request) metadata.MD { return metadata.Pairs("fleet-face", "rest") }),
	)
	ctx := context.Background() // the generated functions take one and do not use it
	if err := fleetv1.RegisterFleetServiceHandlerClient(ctx, f.gateway, f.fleet); err != nil {
		return err
	}
	if err := fleetv1.RegisterTokenServiceHandlerClient(ctx, f.gateway, fleetv1.NewTokenServiceClient(conn)); err != nil {
		return err
	}
	if err := fleetv1.RegisterLifecycleServiceHandlerClient(ctx, f.gateway, fleetv1.NewLifecycleServiceClient(conn)); err != nil {
		return err
	}
	if err := fleetv1.RegisterProviderServiceHandlerClient(ctx, f.gateway, fleetv1.NewProviderServiceClient(conn)); err != nil {
		return err
	}
	if err := fleetv1.RegisterSessionServiceHandlerClient(ctx, f.gateway, fleetv1.NewSessionServiceClient(conn)); err != nil {
		return err
	}
	if err := fleetv1.RegisterSubagentServiceHandlerClient(ctx, f.gateway, fleetv1.NewSubagentServiceClient(conn)); err != nil {
		return err
	}
	for _, rt := range f.routes { // the later registration counts
		handler, err := runtime.HandlerFunc(f.watch), error(nil)
		switch {
		case rt.isDownload():
			handler = f.download(rt)
		case rt.isTurn():
			handler, err = f.turn(rt)
		case rt.method.FullName() != "fleet.v1.FleetService.WatchFleet":
			continue
		}
		if err != nil {
			return err
		}
		for _, verb := range rt.verbs() {
			if err := f.gateway.HandlePath(verb, rt.template, handler); err != nil {
				return err
			}
		}
	}
	return nil
}

func none(string) (string, bool) { return "", false }

// ServeHTTP answers a request.
func (f *face) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	if !isProbe(r.URL.Path) { // an orchestrator asks for these by whatever address it has, and they tell nothing
		if err := f.guard.check(r); err != nil {
			writeError(w, err)
			return
		}
	}
	if page, ok := f.pages[r.URL.Path]; ok {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			f.writeNotAllowed(w, r, []string{http.MethodGet, http.MethodHead})
			return
		}
		page.ServeHTTP(w, r)
		return
	}
	f.gateway.ServeHTTP(w, f.forGateway(w, r))
}

// heard are the request headers that mean something to this face.
var heard = []string{
	"Accept", "Accept-Encoding", "Authorization", "Content-Encoding", "Content-Type",
	"If-Match", "If-None-Match", "If-Range", "Last-Event-Id", "Range",
}

// forGateway returns the request without what the gateway would make metadata or deadlines of unasked (Grpc-Timeout,
// X-Forwarded-Host and others), with a limit on the body, and with its path as the client escaped it: given an
// unescaped path, the gateway would unescape it a second time.
func (f *face) forGateway(w http.ResponseWriter, r *http.Request) *http.Request {
	in := r.WithContext(r.Context())
	in.Host, in.RemoteAddr, in.Header = "", "", http.Header{}
	for _, name := range heard {
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

func isProbe(path string) bool { return path == "/healthz" || path == "/readyz" }

// accepts says whether the client names the media type in its Accept header.
func accepts(r *http.Request, media string) bool {
	for _, header := range r.Header.Values("Accept") {
		for item := range strings.SplitSeq(header, ",") {
			name, _, _ := strings.Cut(item, ";")
			if strings.EqualFold(strings.TrimSpace(name), media) {
				return true
			}
		}
	}
	return false
}
