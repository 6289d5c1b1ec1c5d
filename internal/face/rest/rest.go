// Package rest is the REST face: the API as JSON over HTTP, its OpenAPI document and page, and the health endpoints.
// It finds the method of a request by the google.api.http options of the proto, makes the request message from path,
// query and body, calls the method, and writes the answer or error in the JSON form of package wire. It also streams
// events.
//
// Package app serves it. It calls the gRPC services through an in-process connection. It must never import the core:
// the services decide what a method does or refuses.
package rest

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"google.golang.org/grpc"

	fleetv1 "fleet/gen/fleet/v1"
)

// DefaultMaxBodyBytes is the default of Config.MaxBodyBytes.
const DefaultMaxBodyBytes = 16 << 20

// DefaultHeartbeat is the default of Config.Heartbeat.
const DefaultHeartbeat = 10 * time.Second

// Config holds the optional settings of the face. The zero value suits a server on this machine alone.
type Config struct {
	// MaxBodyBytes is the largest request body that is read, in bytes; 0 means DefaultMaxBodyBytes.
	MaxBodyBytes int64
	// Identify identifies the caller of the method from the request's Authorization headers, before the body is read.
	// The call is made with the context that it returns. An error, which is a gRPC status, refuses the request. If
	// Identify is nil, every request is read.
	Identify func(ctx context.Context, method string, authorization []string) (context.Context, error)
	// Challenge returns the header WWW-Authenticate that tells an unknown caller where to sign in. If Challenge is nil,
	// the header does not name a place to sign in.
	Challenge func(r *http.Request) string
	// Version is the server's version, shown on the index page.
	Version string
	// Heartbeat is the longest silence of a stream of server-sent events; 0 means DefaultHeartbeat.
	Heartbeat time.Duration
}

// face is the HTTP handler.
type face struct {
	config Config
	routes []*route
	pages  map[string]http.Handler // by path
	conn   grpc.ClientConnInterface
	health fleetv1.HealthServiceClient

	opening  time.Duration // how long to wait for a stream's first answer, which decides the HTTP status
	patience time.Duration // how long a client may take to receive one write of a stream
}

// Handler returns the REST face of the services behind conn. It starts nothing. A stream ends when its request's
// context is done, or when the service ends it.
func Handler(conn grpc.ClientConnInterface, config Config) (http.Handler, error) {
	return newFace(conn, config)
}

func newFace(conn grpc.ClientConnInterface, config Config) (*face, error) {
	if config.MaxBodyBytes == 0 {
		config.MaxBodyBytes = DefaultMaxBodyBytes
	}
	if config.Heartbeat == 0 {
		config.Heartbeat = DefaultHeartbeat
	}
	f := &face{
		config:   config,
		conn:     conn,
		health:   fleetv1.NewHealthServiceClient(conn),
		opening:  100 * time.Millisecond,
		patience: 30 * time.Second,
	}
	var err error
	if f.routes, err = routesOf(fleetv1.File_fleet_v1_fleet_service_proto, fleetv1.File_fleet_v1_token_service_proto,
		fleetv1.File_fleet_v1_lifecycle_service_proto, fleetv1.File_fleet_v1_provider_service_proto,
		fleetv1.File_fleet_v1_session_service_proto, fleetv1.File_fleet_v1_subagent_service_proto); err != nil {
		return nil, err
	}
	for _, rt := range f.routes {
		rt.handle = f.handlerOf(rt)
	}
	if f.pages, err = f.newPages(); err != nil {
		return nil, fmt.Errorf("rest: %w", err)
	}
	return f, nil
}

// handlerOf returns the handler of a route.
func (f *face) handlerOf(rt *route) handler {
	switch {
	case rt.isDownload():
		return f.download
	case rt.isTurn():
		return f.turn
	case rt.method.IsStreamingServer():
		return f.watch
	}
	return f.unary
}

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
	switch rt, values, verbs := f.find(r); {
	case rt != nil:
		f.call(w, r, rt, values)
	case len(verbs) > 0:
		f.writeNotAllowed(w, r, verbs)
	default:
		f.writeNotFound(w, r)
	}
}

// IsProbe reports whether the path is a health probe. A probe reveals nothing, so it may be called with any host name.
func IsProbe(path string) bool { return path == "/healthz" || path == "/readyz" }

// accepts reports whether the client names the media type in its Accept header.
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
