package page

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// fakeLeases are leases that expire by the clock of a test.
type fakeLeases struct {
	now       *time.Time
	owners    map[string]string
	expiresAt map[string]time.Time
}

func newFakeLeases(now *time.Time) *fakeLeases {
	return &fakeLeases{now: now, owners: map[string]string{}, expiresAt: map[string]time.Time{}}
}

func (l *fakeLeases) AcquireLease(_ context.Context, key, owner string, ttl time.Duration) (int64, error) {
	if l.expiresAt[key].After(*l.now) && l.owners[key] != owner {
		return 0, nil
	}
	l.owners[key], l.expiresAt[key] = owner, l.now.Add(ttl)
	return 1, nil
}

func (l *fakeLeases) Leases(_ context.Context, prefix string) (map[string]string, error) {
	owners := map[string]string{}
	for key, owner := range l.owners {
		if strings.HasPrefix(key, prefix) && l.expiresAt[key].After(*l.now) {
			owners[key] = owner
		}
	}
	return owners, nil
}

// newTestPage returns the page in front of an API that answers with the Authorization header that it receives. leases may be nil if no
// links are made.
func newTestPage(t *testing.T, leases *fakeLeases) http.Handler {
	t.Helper()
	api := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(r.Header.Get("Authorization"))) })
	h, err := Handler(api, NewSessions(SessionConfig{Identify: identify, Leases: leases, LinkKey: []byte("the key of the fleet")}))
	require.NoError(t, err)
	return h
}

// identify accepts the tokens good and also-good.
func identify(_ context.Context, authorization []string) error {
	switch strings.Join(authorization, " and ") {
	case "Bearer good", "bearer also-good", "Bearer also-good":
		return nil
	case "Bearer busy":
		return status.Error(codes.ResourceExhausted, "too many requests")
	case "Bearer unreachable":
		return status.Error(codes.Unavailable, "the issuer is down")
	}
	return status.Error(codes.Unauthenticated, "the token is unknown")
}

func serve(h http.Handler, method, path, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// sessionHeadersFrom returns the headers that the page sends after the answer has begun a session.
func sessionHeadersFrom(t *testing.T, w *httptest.ResponseRecorder) []string {
	t.Helper()
	var sealed sealedSession
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &sealed))
	require.NotEmpty(t, sealed.Session)
	return []string{"Cookie", cookies(w), sessionHeaderName, sealed.Session}
}

// sessionHeadersWith returns the headers that a browser sends in a session with the token.
func sessionHeadersWith(token string) []string {
	return []string{"Cookie", sessionCookieName + "=key", sessionHeaderName, newBox(sessionPurpose, "key").seal(token)}
}

func TestSession(t *testing.T) {
	t.Parallel()
	h := newTestPage(t, nil)
	require.Equal(t, http.StatusUnauthorized, serve(h, "POST", "/session", `{"token":"bad"}`).Code)
	require.Equal(t, http.StatusBadRequest, serve(h, "POST", "/session", `{}`).Code)
	require.Equal(t, http.StatusBadRequest, serve(h, "POST", "/session", `{"token":`).Code)
	require.Equal(t, http.StatusNotFound, serve(h, "PUT", "/session", ``).Code)

	w := serve(h, "POST", "/session", `{"token":"good"}`)
	require.Equal(t, http.StatusOK, w.Code)
	c := w.Result().Cookies()[0]
	require.True(t, c.HttpOnly)
	require.Equal(t, http.SameSiteStrictMode, c.SameSite)
	ownHeaders := sessionHeadersFrom(t, w)
	require.Equal(t, "Bearer good", serve(h, "GET", "/v1/agents", "", ownHeaders...).Body.String())
	require.Equal(t, "Bearer other", serve(h, "GET", "/v1/agents", "", append(ownHeaders, "Authorization", "Bearer other")...).Body.String())
	require.Empty(t, serve(h, "POST", "/mcp", "", ownHeaders...).Body.String(), "a session must work only for the page's own calls")

	// Another port of the host gets the cookie, and a script in the page can read the rest. Neither is enough.
	otherHeaders := sessionHeadersFrom(t, serve(h, "POST", "/session", `{"token":"good"}`))
	for name, header := range map[string][]string{
		"only the cookie": ownHeaders[:2], "only the header": ownHeaders[2:], "another session's header": append(ownHeaders[:2:2], otherHeaders[2:]...),
		"the cookie twice": append(ownHeaders[:2:2], sessionHeaderName, c.Value), "an empty cookie": append([]string{"Cookie", sessionCookieName + "="}, ownHeaders[2:]...),
	} {
		require.Empty(t, serve(h, "GET", "/v1/agents", "", header...).Body.String(), name)
		require.Contains(t, serve(h, "GET", "/session", "", header...).Body.String(), `"signed_in":false`, name)
	}
	for _, part := range ownHeaders {
		require.NotContains(t, part, "good")
	}
	again := sessionHeadersFrom(t, serve(h, "POST", "/session", `{"token":"good"}`, ownHeaders[:2]...))
	require.NotEqual(t, ownHeaders[1], again[1], "a new session must have a new key, because another port may have set the cookie")
	twoCookies := append([]string{"Cookie", sessionCookieName + "=of-another-port; " + ownHeaders[1]}, ownHeaders[2:]...)
	require.Equal(t, "Bearer good", serve(h, "GET", "/v1/agents", "", twoCookies...).Body.String(), "the session must work although another port has set a cookie for a longer path")

	w = serve(h, "DELETE", "/session", "")
	require.Negative(t, w.Result().Cookies()[0].MaxAge)
}

func TestLinks(t *testing.T) {
	t.Parallel()
	now := time.Now()
	h := newTestPage(t, newFakeLeases(&now))
	link := func(authorization string) string {
		w := serve(h, "POST", "/session/links", "", "Authorization", authorization)
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		var answer struct{ Code string }
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer))
		return `{"code":"` + answer.Code + `"}`
	}
	require.Equal(t, http.StatusUnauthorized, serve(h, "POST", "/session/links", "").Code)

	code := link("Bearer good")
	require.Equal(t, http.StatusOK, serve(h, "POST", "/session", code).Code)
	require.Equal(t, http.StatusUnauthorized, serve(h, "POST", "/session", code).Code, "a link must work only once")

	code = link("Bearer good")
	now = now.Add(linkLifetime + time.Second)
	require.Equal(t, http.StatusUnauthorized, serve(h, "POST", "/session", code).Code, "a link must not work after a minute")

	for range maxTokenLinks {
		link("Bearer good")
	}
	w := serve(h, "POST", "/session/links", "", "Authorization", "Bearer good")
	require.Equal(t, http.StatusTooManyRequests, w.Code)
	require.Equal(t, "60", w.Header().Get("Retry-After"))
	code = link("bearer also-good")
	require.Equal(t, http.StatusOK, serve(h, "POST", "/session", code).Code, "other tokens must have their own links, and the scheme may be in lower case")
	now = now.Add(linkLifetime + time.Second)
	link("Bearer good")
}

// TestLinkAtAnotherServer checks that a link that one server has made works at another server of the fleet, once.
func TestLinkAtAnotherServer(t *testing.T) {
	t.Parallel()
	now := time.Now()
	leases := newFakeLeases(&now)
	one, other := newTestPage(t, leases), newTestPage(t, leases)
	var answer struct{ Code string }
	require.NoError(t, json.Unmarshal(serve(one, "POST", "/session/links", "", "Authorization", "Bearer good").Body.Bytes(), &answer))
	code := `{"code":"` + answer.Code + `"}`
	require.Equal(t, http.StatusOK, serve(other, "POST", "/session", code).Code)
	require.Equal(t, http.StatusUnauthorized, serve(one, "POST", "/session", code).Code, "a link must work only once")
	for key := range leases.owners {
		require.NotContains(t, key, answer.Code)
	}
	for _, bad := range []string{"", "x", "=", answer.Code[1:], "A" + answer.Code} {
		require.NotEqual(t, http.StatusOK, serve(one, "POST", "/session", `{"code":"`+bad+`"}`).Code)
	}
}

// TestRateLimit checks that a caller who has sent too many requests gets no link and no session, and is not signed out. It also
// checks that an outage of the issuer does not sign a caller out.
func TestRateLimit(t *testing.T) {
	t.Parallel()
	h := newTestPage(t, nil)
	require.Equal(t, http.StatusTooManyRequests, serve(h, "POST", "/session/links", "", "Authorization", "Bearer busy").Code)
	require.Equal(t, http.StatusTooManyRequests, serve(h, "POST", "/session", `{"token":"busy"}`).Code)
	require.Contains(t, serve(h, "GET", "/session", "", sessionHeadersWith("busy")...).Body.String(), `"signed_in":true`)
	require.Contains(t, serve(h, "GET", "/session", "", sessionHeadersWith("unreachable")...).Body.String(), `"signed_in":true`, "an outage must sign nobody out")
	require.Contains(t, serve(h, "GET", "/session", "", sessionHeadersWith("bad")...).Body.String(), `"signed_in":false`)
}

// TestLocalhost checks that a browser that has reached the server at 127.0.0.1 by the name localhost is sent to the address 127.0.0.1,
// because a program of an agent may listen at the other address of localhost.
func TestLocalhost(t *testing.T) {
	t.Parallel()
	h := newTestPage(t, nil)
	get := func(host, local string) string {
		r := httptest.NewRequest(http.MethodGet, "/tasks?q=x", nil)
		r.Host = host
		r.Header.Set("Accept", "text/html")
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.ParseIP(local), Port: 8101}))
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Header().Get("Location")
	}
	require.Equal(t, "http://127.0.0.1:8101/tasks?q=x", get("localhost:8101", "127.0.0.1"))
	require.Empty(t, get("127.0.0.1:8101", "127.0.0.1"))
	require.Empty(t, get("localhost:8101", "::1"))
	require.Empty(t, get("fleet.example.com", "127.0.0.1"), "the browser may have reached a proxy on this machine")
	require.Empty(t, get("localhost:8101", "10.0.0.1"), "a server in a container is not reached at 127.0.0.1")
}

func TestFiles(t *testing.T) {
	t.Parallel()
	h := newTestPage(t, nil)
	for _, path := range []string{"/", "/agents/papi", "/tasks", "/toolsets/sessions/x"} {
		w := serve(h, "GET", path, "", "Accept", "text/html,*/*")
		require.Equal(t, "text/html; charset=utf-8", w.Header().Get("Content-Type"), path)
		require.NotContains(t, w.Header().Get("Content-Security-Policy"), "unsafe")
		require.Equal(t, "no-cache", w.Header().Get("Cache-Control"))
	}
	for _, path := range []string{"/", "/v1/agents", "/docs"} { // programs do not get the page
		require.NotContains(t, serve(h, "GET", path, "", "Accept", "application/json").Body.String(), "<!doctype", path)
	}
	index := serve(h, "GET", "/", "", "Accept", "text/html").Body.String()
	_, rest, _ := strings.Cut(index, `src="/assets/`)
	name, _, _ := strings.Cut(rest, `"`)
	w := serve(h, "GET", "/assets/"+name, "", "Accept-Encoding", "gzip")
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, "gzip", w.Header().Get("Content-Encoding"))
	require.Contains(t, w.Header().Get("Cache-Control"), "immutable")
}

// TestPolicy checks that the pages of the face have the same strict Content-Security-Policy and contain nothing that the policy forbids,
// and that a sign-in needs no form.
func TestPolicy(t *testing.T) {
	t.Parallel()
	h := newSignInPage(t, &fakeIssuer{}, "")
	for _, path := range []string{"/", "/admin", callbackPath + "?error=<script>", callbackPath + "?state=x&code=y"} {
		w := serve(h, "GET", path, "", "Accept", "text/html")
		require.Equal(t, contentSecurityPolicy, w.Header().Get("Content-Security-Policy"), path)
		require.NotRegexp(t, `(?i)<style|\sstyle=|\son\w+=|javascript:|<script>|<form|<base`, w.Body.String(), path)
	}
	for _, part := range []string{"default-src 'none'", "script-src 'self';", "style-src 'self';", "connect-src 'self';", "form-action 'none'", "frame-ancestors 'none'"} {
		require.Contains(t, contentSecurityPolicy+";", part)
	}
	w := serve(h, "GET", signInPath, "", "Accept", "text/html") // a link, so that form-action may forbid all forms
	require.Equal(t, http.StatusFound, w.Code)
}
