package mcp

import (
	"net/http"

	"google.golang.org/grpc"

	"fleet/internal/face/wire"
)

// Handler serves the toolsets over streamable HTTP, in every revision of the protocol that mcp-go speaks: /mcp is the
// fleet toolset, /mcp/{toolset} any, and /mcp/all every tool that has no namesake. Calls go out over conn with the
// caller's Authorization as metadata. The handler starts nothing that would have to be stopped; the server that it
// runs in must not limit the time of a whole answer, because an answer may be a stream. The error is about the
// Config.
func Handler(conn grpc.ClientConnInterface, c Config) (http.Handler, error) {
	c = c.withDefaults()
	sets := toolsets(conn)
	known := newSessions(c.SessionTTL, c.Now)
	mux := http.NewServeMux()
	for _, s := range sets {
		e := newEndpoint(newServer(s, c), known, c)
		mux.Handle("/mcp/"+s.Name, e)
		if s.Name == defaultToolset {
			mux.Handle("/mcp", e)
			mux.Handle("/mcp/{$}", e)
		}
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeError(w, http.StatusNotFound, wire.Error{
			Reason:  "UNIMPLEMENTED",
			Message: "There is no MCP endpoint " + r.URL.Path + "; use /mcp, or /mcp/ with one of the toolsets " + names(sets) + ".",
			Details: map[string]any{"available": names(sets)},
		})
	})
	return guard(mux, c)
}

// writeError answers with an error object. It is for what is not a message of the protocol yet.
func writeError(w http.ResponseWriter, status int, e wire.Error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(e.JSON(), '\n')) // the client may be gone
}
