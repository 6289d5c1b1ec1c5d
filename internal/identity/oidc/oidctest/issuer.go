// Package oidctest runs an OpenID provider on loopback for tests. It uses the library zitadel/oidc, with users that the
// test chooses. The provider supports the authorization code and device flows, refreshes tokens, and rotates its keys.
package oidctest

import (
	"context"
	"crypto/sha256"
	"fmt"
	"html"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/op"

	"fleet/internal/loopback/loopbacktest"
)

// These are the clients that the issuer knows.
const (
	ClientID     = "fleet" // confidential; redirects to any loopback address
	ClientSecret = "page-secret-canary"
	CLIClientID  = "fleet-cli" // public; redirects to any loopback address
)

// User is a person who can sign in. There is no password.
type User struct {
	Subject, Name, Email string
	EmailVerified        bool
	Groups               []string
	// Claims are further claims of the user's tokens.
	Claims map[string]any
}

// Issuer is an OpenID provider on loopback.
type Issuer struct {
	// URL is the issuer's identifier.
	URL   string
	users []User
	store *store

	mu            sync.Mutex
	address       string
	handler       http.Handler
	server        *httptest.Server
	requestCounts map[string]int // requests by path
}

// New starts an issuer with the users. It stops at the end of the test.
func New(t testing.TB, users ...User) *Issuer {
	t.Helper()
	i := &Issuer{users: users, requestCounts: map[string]int{}}
	i.store = newStore(i)
	i.address = loopbacktest.Address(t)
	i.URL = "http://" + i.address
	config := &op.Config{
		CryptoKey: sha256.Sum256([]byte(t.Name())), CodeMethodS256: true, AuthMethodPost: true, GrantTypeRefreshToken: true, DefaultLogoutRedirectURI: "/logged-out",
		SupportedScopes: []string{"openid", "profile", "email", "groups", "offline_access"},
		DeviceAuthorization: op.DeviceAuthorizationConfig{
			Lifetime: time.Hour, PollInterval: time.Second, UserFormPath: "/device", UserCode: op.UserCodeBase20,
		},
	}
	provider, err := op.NewProvider(config, i.store, op.StaticIssuer(i.URL), op.WithAllowInsecure(), op.WithLogger(slog.New(slog.DiscardHandler)))
	require.NoError(t, err)
	interceptor := op.NewIssuerInterceptor(provider.IssuerFromRequest)
	mux := http.NewServeMux()
	mux.Handle("GET /login", http.HandlerFunc(i.askUser))
	mux.Handle("GET /logged-out", http.HandlerFunc(i.showLoggedOut))
	mux.Handle("POST /login", interceptor.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := i.store.CheckUsernamePassword(r.FormValue("username"), "", r.FormValue("id")); err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		http.Redirect(w, r, op.AuthCallbackURL(provider)(r.Context(), r.FormValue("id")), http.StatusFound)
	}))
	mux.Handle("POST /device", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := i.ApproveDevice(r.Context(), r.FormValue("user_code"), r.FormValue("username")); err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
		}
	}))
	mux.Handle("/", provider)
	i.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i.mu.Lock()
		i.requestCounts[r.URL.Path]++
		i.mu.Unlock()
		mux.ServeHTTP(w, r)
	})
	i.Start(t)
	t.Cleanup(i.Stop)
	return i
}

// Start makes the issuer reachable. After Stop, it has the same address as before.
func (i *Issuer) Start(t testing.TB) {
	t.Helper()
	loopbacktest.WaitUntilFree(t, i.address)
	l, err := net.Listen("tcp", i.address)
	require.NoError(t, err)
	server := httptest.NewUnstartedServer(i.handler)
	_ = server.Listener.Close() // never used
	server.Listener = l
	server.Start()
	i.mu.Lock()
	defer i.mu.Unlock()
	i.server = server
}

// Stop makes the issuer unreachable.
func (i *Issuer) Stop() {
	i.mu.Lock()
	server := i.server
	i.server = nil
	i.mu.Unlock()
	if server != nil {
		server.CloseClientConnections()
		server.Close()
	}
}

// RequestCount returns how often the path was requested.
func (i *Issuer) RequestCount(path string) int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.requestCounts[path]
}

// RotateKey replaces the signing key. The key set no longer contains the old key.
func (i *Issuer) RotateKey() { i.store.rotateKey() }

// SetLifetime sets how long new tokens are valid.
func (i *Issuer) SetLifetime(d time.Duration) {
	i.store.mu.Lock()
	defer i.store.mu.Unlock()
	i.store.lifetime = d
}

// RevokeRefreshTokens ends all sessions: existing refresh tokens are refused.
func (i *Issuer) RevokeRefreshTokens() {
	i.store.mu.Lock()
	defer i.store.mu.Unlock()
	i.store.revokedBefore = time.Now()
}

// ApproveDevice signs the user in for the device flow, like a person who opens the link and enters the user code.
func (i *Issuer) ApproveDevice(ctx context.Context, userCode, user string) error {
	return i.store.CompleteDeviceAuthorization(ctx, userCode, i.GetUserByUsername(user).ID)
}

// askUser serves the page with a button for each user.
func (i *Issuer) askUser(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = io.WriteString(w, `<!doctype html><html lang="en"><title>Issuer</title><link rel="icon" href="data:,"><main><h1>Issuer</h1><form method="post">`+
		`<input type="hidden" name="id" value="`+html.EscapeString(r.FormValue("id"))+`">`)
	for _, u := range i.users {
		_, _ = fmt.Fprintf(w, `<button name="username" value="%s">Continue as %s</button>`, html.EscapeString(u.Name), html.EscapeString(u.Name))
	}
	_, _ = io.WriteString(w, `</form></main></html>`)
}

// showLoggedOut serves the page that people see after their session has ended.
func (*Issuer) showLoggedOut(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = io.WriteString(w, `<!doctype html><html lang="en"><title>Issuer</title><link rel="icon" href="data:,"><main><h1>The issuer has ended your session</h1></main></html>`)
}

// findUser returns the first user that matches, or nil.
func (i *Issuer) findUser(match func(u User) bool) *storage.User {
	for _, u := range i.users {
		if match(u) {
			return &storage.User{ID: u.Subject, Username: u.Name, Email: u.Email, EmailVerified: u.EmailVerified}
		}
	}
	return nil
}

// GetUserByID is part of storage.UserStore.
func (i *Issuer) GetUserByID(id string) *storage.User {
	return i.findUser(func(u User) bool { return u.Subject == id })
}

// GetUserByUsername is part of storage.UserStore.
func (i *Issuer) GetUserByUsername(name string) *storage.User {
	return i.findUser(func(u User) bool { return u.Name == name })
}

// ExampleClientID is part of storage.UserStore.
func (*Issuer) ExampleClientID() string { return "unused" }
