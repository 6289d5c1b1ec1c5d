package mcp

import (
	"net/http"
	"sync"

	"google.golang.org/grpc"

	"fleet/internal/face/wire"
)

// Handler serves the toolsets over streamable HTTP, in every protocol revision that mcp-go supports: /mcp is the fleet
// toolset, /mcp/{toolset} any toolset, and /mcp/all every tool with a unique name. Calls go over conn, with the
// caller's Authorization as metadata. Handler starts nothing that needs to be stopped. Its server must not limit the
// time of a whole answer, since an answer may be a stream.
//
// The tools are built at the first request. Building them earlier would take a quarter of the server's start time.
func Handler(conn grpc.ClientConnInterface, c Config) http.Handler {
	mux := sync.OnceValue(func() http.Handler { return newMux(conn, c.withDefaults()) })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { mux().ServeHTTP(w, r) })
}

// newMux returns the handler of all endpoints.
func newMux(conn grpc.ClientConnInterface, c Config) http.Handler {
	sets := c.filterTools(toolsets(conn))
	sessions, tasks := newSessions(c.SessionKey), newTasks(conn)
	mux := http.NewServeMux()
	for _, s := range sets {
		e := newEndpoint(newServer(conn, s, tasks, c), sessions, tasks, c)
		mux.Handle("/mcp/"+s.Name, e)
		if s.Name == defaultToolset {
			mux.Handle("/mcp", e)
			mux.Handle("/mcp/{$}", e)
		}
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		wire.WriteErrorObject(w, http.StatusNotFound, wire.Error{
			Reason:  "UNIMPLEMENTED",
			Message: "there is no MCP endpoint " + r.URL.Path + "; use /mcp, or /mcp/ with one of the toolsets " + joinNames(sets),
			Details: map[string]any{"available": joinNames(sets)},
		})
	})
	return mux
}

// Paths returns the paths of the endpoints.
func Paths() []string {
	paths := []string{"/mcp"}
	for _, s := range toolsets(nil) {
		paths = append(paths, "/mcp/"+s.Name)
	}
	return paths
}
