package protected

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMetadata(t *testing.T) {
	t.Parallel()
	p := &Resource{Issuer: "https://issuer.example.com", Scopes: []string{"openid", "email"}, CLIClientID: "fleet-cli", Endpoints: []string{"/mcp", "/mcp/fleet"}}
	for path, resource := range map[string]string{
		"": "http://fleet.test:8101", "/mcp/fleet": "http://fleet.test:8101/mcp/fleet", "/mcp": "http://fleet.test:8101/mcp", "/mcp/x": "", "/v1": "", "/": "",
	} {
		w := httptest.NewRecorder()
		p.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://fleet.test:8101"+Path+path, nil))
		if resource == "" {
			require.Equal(t, http.StatusNotFound, w.Code, path)
			continue
		}
		var got map[string]any
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &got))
		require.Equal(t, map[string]any{
			"resource": resource, "authorization_servers": []any{"https://issuer.example.com"}, "scopes_supported": []any{"openid", "email"},
			"bearer_methods_supported": []any{"header"}, "resource_name": "Fleet", "fleet_cli_client_id": "fleet-cli",
		}, got)
	}
}

func TestChallenge(t *testing.T) {
	t.Parallel()
	p := &Resource{Scopes: []string{"openid", "email"}, PublicURL: "https://fleet.example.com/", Endpoints: []string{"/mcp", "/mcp/fleet"}}
	for path, want := range map[string]string{
		"/mcp/fleet": "/mcp/fleet", "/mcp/": "/mcp", "/v1/agents": "", "/": "",
	} {
		r := httptest.NewRequest(http.MethodPost, path, nil)
		require.Equal(t, `Bearer realm="fleet", resource_metadata="https://fleet.example.com/.well-known/oauth-protected-resource`+want+`", scope="openid email"`, p.Challenge(r))
		r.Header.Set("Authorization", "Bearer x")
		require.Contains(t, p.Challenge(r), `realm="fleet", error="invalid_token", resource_metadata=`)
	}
}
