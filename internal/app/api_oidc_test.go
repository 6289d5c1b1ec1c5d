package app

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/identity/oidc"
	"fleet/internal/identity/oidc/oidctest"
	"fleet/internal/waittest"
)

// oidcUsers are the users of the issuer of newOIDCFleet.
var oidcUsers = []oidctest.User{
	{Subject: "1", Name: "alice", Groups: []string{"dev"}},
	{Subject: "2", Name: "bob", Groups: []string{"dev", "staff"}},
	{Subject: "3", Name: "carol", Groups: []string{"staff"}},
	{Subject: "4", Name: "vic", Groups: []string{"auditors"}},
	{Subject: "5", Name: "root", Groups: []string{"fleet-admins"}},
	{Subject: "6", Name: "alice", Groups: []string{"dev"}},
}

// oidcAuth returns a change of the configuration: the server accepts the credentials auth, and has the issuer.
func oidcAuth(issuer *oidctest.Issuer, auth ...string) func(c *Config) {
	return func(c *Config) {
		c.Auth = auth
		c.OIDC = oidc.Config{
			Issuer: issuer.URL, ClientID: oidctest.ClientID, ClientSecret: oidctest.ClientSecret, CLIClientID: oidctest.CLIClientID,
			Roles: map[string]string{"dev": "user", "auditors": "viewer", "fleet-admins": "admin"},
		}
	}
}

// newOIDCFleet returns a fleet that accepts its own tokens and tokens of an issuer, and the issuer. The fleet's secrets
// "oidc:NAME" are tokens of the people.
func newOIDCFleet(t *testing.T) (*testFleet, *oidctest.Issuer) {
	t.Helper()
	issuer := oidctest.New(t, oidcUsers...)
	var log lockedBuffer
	f := newTestFleet(t, fleetConfig{
		Tokens: map[string]tokenConfig{"alice": {}}, Config: oidcAuth(issuer, AuthTokens, AuthOIDC), Options: func(o *Options) { o.Log = &log },
	})
	t.Cleanup(func() {
		text := string(log.Bytes())
		for name, secret := range f.secrets {
			require.NotContains(t, text, secret[len(secret)-40:], "the log must not have the token of %s", name)
		}
		require.NotContains(t, text, oidctest.ClientSecret)
	})
	for _, p := range oidcUsers[:5] {
		f.secrets["oidc:"+p.Name] = issuer.IDToken(t, p.Name)
	}
	f.secrets["second alice"] = issuer.SignedToken(t, func(c map[string]any) { c["sub"], c["preferred_username"] = "6", "alice" })
	return f, issuer
}

// TestOIDC checks on every face the principals and the rights of callers with tokens of the issuer.
func TestOIDC(t *testing.T) {
	t.Parallel()
	f, _ := newOIDCFleet(t)
	for i, caller := range []string{"alice", "oidc:alice", "oidc:bob", "second alice"} {
		face := []string{"grpc", "rest", "mcp", "grpc"}[i]
		r := f.call(t, face, "create_agent", caller, map[string]any{"name": "of-" + strings.NewReplacer(":", "-", " ", "-").Replace(caller), "project": "Setup", "spec": "x"})
		require.Nil(t, r.err, "%s: %v", caller, r.err)
	}
	agentsOf := func(face, caller string) (names, owners []string) {
		r := f.call(t, face, "list_agents", caller, nil)
		require.Nil(t, r.err, "%s on %s: %v", caller, face, r.err)
		list, _ := json.Marshal(r.answer)
		var answer struct {
			Agents []struct{ Name, Owner string }
		}
		require.NoError(t, json.Unmarshal(list, &answer))
		for _, a := range answer.Agents {
			names, owners = append(names, a.Name), append(owners, a.Owner)
		}
		slices.Sort(names)
		slices.Sort(owners)
		return names, owners
	}
	for _, face := range []string{"grpc", "rest", "mcp"} {
		for caller, want := range map[string][]string{
			"alice": {"of-alice"}, "oidc:alice": {"of-oidc-alice"}, "oidc:bob": {"of-oidc-bob"}, "second alice": {"of-second-alice"}, "oidc:vic": nil,
			"oidc:root": {"of-alice", "of-oidc-alice", "of-oidc-bob", "of-second-alice"},
		} {
			got, _ := agentsOf(face, caller)
			require.Equal(t, want, got, "%s on %s", caller, face)
		}
		_, owners := agentsOf(face, "oidc:root")
		require.Equal(t, []string{"alice", "oidc:alice", "oidc:alice~2", "oidc:bob"}, owners)

		for caller, r := range map[string]reply{
			"oidc:carol": f.call(t, face, "list_agents", "oidc:carol", nil),
			"oidc:vic":   f.call(t, face, "create_agent", "oidc:vic", map[string]any{"name": "x", "project": "Setup", "spec": "x"}),
		} {
			require.NotNil(t, r.err, caller)
			require.Equal(t, "PERMISSION_DENIED", r.err.Reason, "%s on %s: %v", caller, face, r.err)
		}
	}
	alice := f.authContext(t.Context(), "oidc:alice")
	require.Equal(t, "human", sourceOfNewTask(alice, t, fleetv1.NewFleetServiceClient(f.conn), "of-oidc-alice"))
}

// TestOIDCExpiry checks that a stream ends when its token expires.
func TestOIDCExpiry(t *testing.T) {
	t.Parallel()
	f, issuer := newOIDCFleet(t)
	issuer.SetLifetime(3 * time.Second)
	expires := time.Now().Add(3 * time.Second).Truncate(time.Second) // at the earliest
	f.secrets["short"] = issuer.IDToken(t, "alice")
	stream, err := fleetv1.NewFleetServiceClient(f.conn).WatchFleet(f.authContext(t.Context(), "short"), &fleetv1.WatchFleetRequest{Follow: true})
	require.NoError(t, err)
	for err == nil {
		_, err = stream.Recv()
	}
	require.Equal(t, codes.Unauthenticated, status.Code(err), "%v", err)
	require.False(t, time.Now().Before(expires))
	_, err = fleetv1.NewFleetServiceClient(f.conn).ListAgents(f.authContext(t.Context(), "short"), &fleetv1.ListAgentsRequest{})
	require.ErrorContains(t, err, "the token has expired")
}

// TestOIDCUnreachable checks that a server that starts before its issuer accepts its own tokens, and accepts those of the issuer as soon
// as it can reach the issuer.
func TestOIDCUnreachable(t *testing.T) {
	t.Parallel()
	issuer := oidctest.New(t, oidcUsers...)
	token := issuer.IDToken(t, "alice")
	issuer.Stop()
	f := newTestFleet(t, fleetConfig{Tokens: map[string]tokenConfig{"alice": {}}, Config: oidcAuth(issuer, AuthTokens, AuthOIDC)})
	f.secrets["oidc:alice"] = token
	degradedParts := func() (parts []string) {
		h, err := fleetv1.NewHealthServiceClient(f.conn).CheckHealth(t.Context(), &fleetv1.CheckHealthRequest{})
		require.NoError(t, err)
		for _, d := range h.GetDegraded() {
			parts = append(parts, d.GetPart())
		}
		return parts
	}
	waittest.Until(t, "the issuer is asked in the background", func() bool { return slices.Contains(degradedParts(), "oidc") })
	for _, face := range []string{"grpc", "rest"} {
		r := f.call(t, face, "list_agents", "oidc:alice", nil)
		require.Equal(t, "BACKEND_UNAVAILABLE", r.err.Reason)
		require.Contains(t, strings.ToLower(r.err.Message), "the issuer "+issuer.URL+" cannot be reached")
		require.Nil(t, f.call(t, face, "list_agents", "alice", nil).err, "tokens of Fleet must work without the issuer")
	}
	issuer.Start(t)
	waittest.Until(t, "the issuer is asked again in the background", func() bool { return !slices.Contains(degradedParts(), "oidc") })
	_, err := fleetv1.NewFleetServiceClient(f.conn).ListAgents(f.authContext(t.Context(), "oidc:alice"), &fleetv1.ListAgentsRequest{})
	require.NoError(t, err)
}

// TestOIDCDiscovery checks that an MCP client can sign in if it knows only the address of the endpoint and its own client id.
func TestOIDCDiscovery(t *testing.T) {
	t.Parallel()
	f, issuer := newOIDCFleet(t)
	base := f.url("")
	for path, want := range map[string]string{"/mcp/fleet": "/mcp/fleet", "/mcp": "/mcp", "/v1/agents": ""} {
		method := http.MethodPost
		if want == "" {
			method = http.MethodGet
		}
		refusal, _ := f.send(t, method, base+path, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, nil)
		require.Equal(t, http.StatusUnauthorized, refusal.StatusCode, path)
		address := base + "/.well-known/oauth-protected-resource" + want
		require.Contains(t, refusal.Header.Get("WWW-Authenticate"), `resource_metadata="`+address+`"`)
		var metadata struct {
			Resource string
			Servers  []string `json:"authorization_servers"`
		}
		_, body := f.get(t, address, "")
		require.NoError(t, json.Unmarshal([]byte(body), &metadata))
		require.Equal(t, base+want, metadata.Resource)
		require.Equal(t, []string{issuer.URL}, metadata.Servers)
	}

	tokens := transport.NewMemoryTokenStore()
	c, err := client.NewOAuthStreamableHttpClient(base+"/mcp/fleet", transport.OAuthConfig{
		ClientID: oidctest.CLIClientID, RedirectURI: "http://127.0.0.1:1/callback", PKCEEnabled: true, TokenStore: tokens,
		Scopes: []string{"openid", "profile", "groups"},
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.Start(context.WithoutCancel(t.Context())))
	initialize := mcp.InitializeRequest{}
	initialize.Params.ClientInfo = mcp.Implementation{Name: "test", Version: "1"}
	_, err = c.Initialize(t.Context(), initialize)
	require.True(t, client.IsOAuthAuthorizationRequiredError(err), "%v", err)
	handler := client.GetOAuthHandler(err)
	verifier, err := client.GenerateCodeVerifier()
	require.NoError(t, err)
	state, err := client.GenerateState()
	require.NoError(t, err)
	address, err := handler.GetAuthorizationURL(t.Context(), state, client.GenerateCodeChallenge(verifier))
	require.NoError(t, err)
	callbackURL, err := oidctest.Login(t.Context(), "bob", address)
	require.NoError(t, err)
	require.NoError(t, handler.ProcessAuthorizationResponse(t.Context(), callbackURL.Query().Get("code"), callbackURL.Query().Get("state"), verifier))
	_, err = c.Initialize(t.Context(), initialize)
	require.NoError(t, err)
	call := mcp.CallToolRequest{}
	call.Params.Name = "list_agents"
	result, err := c.CallTool(t.Context(), call)
	require.NoError(t, err)
	require.False(t, result.IsError, "%v", result.Content)
}
