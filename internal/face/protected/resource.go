// Package protected tells OAuth clients where to sign in: it serves the protected-resource metadata of RFC 9728, and makes
// the challenges that point to it.
//
// Package app serves it along with REST and MCP, if callers can sign in with an issuer. It must never import the core.
package protected

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"fleet/internal/face/wire"
)

// Path is the path of the metadata of the whole server. The metadata of an MCP endpoint is at Path followed by the endpoint's path, for
// example Path + "/mcp/fleet".
const Path = "/.well-known/oauth-protected-resource"

// Resource describes the server to OAuth clients, as a protected resource.
type Resource struct {
	// Issuer is the identifier of the issuer whose tokens the server accepts.
	Issuer string
	// Scopes are the scopes that clients should request from the issuer.
	Scopes []string
	// CLIClientID is the id of the OAuth client with which the command line signs people in.
	CLIClientID string
	// PublicURL is the URL at which clients reach the server. If it is empty, the URL of the request is used.
	PublicURL string
	// Endpoints are the paths of the MCP endpoints. Each is a protected resource, like the whole server.
	Endpoints []string
}

// metadata is the protected-resource metadata of RFC 9728, as JSON.
type metadata struct {
	Resource             string   `json:"resource"`
	AuthorizationServers []string `json:"authorization_servers"`
	Scopes               []string `json:"scopes_supported"`
	Methods              []string `json:"bearer_methods_supported"`
	Name                 string   `json:"resource_name"`
	CLIClientID          string   `json:"fleet_cli_client_id"` // RFC 9728 allows additional parameters
}

// ServeHTTP answers with the metadata.
func (p *Resource) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Access-Control-Allow-Origin", "*") // clients in browsers read it before they sign in
	endpoint := strings.TrimPrefix(r.URL.Path, Path)
	if endpoint != "" && !slices.Contains(p.Endpoints, endpoint) {
		wire.WriteErrorObject(w, http.StatusNotFound, wire.Error{
			Reason: "NOT_FOUND", Message: "there is no resource " + endpoint + ": the resources are the whole server and " + strings.Join(p.Endpoints, ", "),
		})
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(metadata{ // the client may have disconnected
		Resource: p.baseURL(r) + endpoint, AuthorizationServers: []string{p.Issuer}, Scopes: p.Scopes, Methods: []string{"header"}, Name: "Fleet",
		CLIClientID: p.CLIClientID,
	})
}

// Challenge returns the value of the header WWW-Authenticate for a request whose caller is unknown.
func (p *Resource) Challenge(r *http.Request) string {
	endpoint := strings.TrimSuffix(r.URL.Path, "/")
	if !slices.Contains(p.Endpoints, endpoint) {
		endpoint = ""
	}
	tokenError := ""
	if r.Header.Get("Authorization") != "" {
		tokenError = `, error="invalid_token"`
	}
	return fmt.Sprintf(`Bearer realm="fleet"%s, resource_metadata="%s", scope="%s"`, tokenError, p.baseURL(r)+Path+endpoint, strings.Join(p.Scopes, " "))
}

// baseURL returns the URL at which the client reaches the server.
func (p *Resource) baseURL(r *http.Request) string {
	switch {
	case p.PublicURL != "":
		return strings.TrimSuffix(p.PublicURL, "/")
	case r.TLS != nil:
		return "https://" + r.Host
	}
	return "http://" + r.Host // inbound.Guard has checked the host
}
