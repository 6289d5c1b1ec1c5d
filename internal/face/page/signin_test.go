package page

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// fakeIssuer returns its token for the code "code", if Exchange gets the nonce and verifier of the last AuthURL. Its methods
// return err.
type fakeIssuer struct {
	nonce, verifier, token string
	err                    error
}

func (f *fakeIssuer) AuthURL(_ context.Context, redirect, state, nonce, verifier string) (string, error) {
	f.nonce, f.verifier = nonce, verifier
	return "https://issuer.example.com/auth?" + url.Values{"redirect_uri": {redirect}, "state": {state}}.Encode(), f.err
}

func (f *fakeIssuer) Exchange(_ context.Context, _, code, nonce, verifier string) (string, string, error) {
	if code != "code" || nonce != f.nonce || verifier != f.verifier {
		return "", "", status.Error(codes.Unauthenticated, "the code is wrong")
	}
	return f.token, "refresh-1", f.err
}

func (f *fakeIssuer) Refresh(_ context.Context, refresh string) (string, string, error) {
	if refresh != "refresh-1" {
		return "", "", status.Error(codes.Unauthenticated, "the session has ended")
	}
	return f.token, "refresh-2", f.err
}

func (f *fakeIssuer) EndSessionURL(_ context.Context, token string) (string, error) {
	if token != f.token {
		return "", f.err
	}
	return "https://issuer.example.com/end?id_token_hint=" + token, f.err
}

// TestSignOut checks that a browser that has signed out of Fleet can also end its session with the issuer, but only once, and
// that no other browser can end that session.
func TestSignOut(t *testing.T) {
	t.Parallel()
	f := &fakeIssuer{token: "good"}
	h := newSignInPage(t, f, "")
	w := serve(h, "DELETE", "/session", "", sessionHeadersWith("good")...)
	require.Equal(t, http.StatusOK, w.Code)
	var answer struct{ Continue string }
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer))
	require.True(t, strings.HasPrefix(answer.Continue, endPath+"?"), answer.Continue)
	cookie := cookies(w)
	require.True(t, strings.HasPrefix(cookie, endCookieName+"=") && !strings.Contains(cookie, ";"), "the only remaining cookie must be that for the end of the issuer's session: %s", cookie)
	require.NotContains(t, answer.Continue, sessionHeadersWith("good")[3], "the session must not get into an address")
	for _, c := range w.Result().Cookies() {
		require.True(t, c.HttpOnly, c.Name)
		require.Equal(t, http.SameSiteStrictMode, c.SameSite, c.Name)
	}
	w = serve(h, "GET", answer.Continue, "", "Cookie", cookie)
	require.Equal(t, http.StatusFound, w.Code)
	require.Equal(t, "https://issuer.example.com/end?id_token_hint=good", w.Header().Get("Location"))
	require.Equal(t, "no-referrer", w.Header().Get("Referrer-Policy"))
	require.Empty(t, cookies(w))

	// A browser that has not just signed out is not sent to the issuer.
	_, key, _ := strings.Cut(cookie, "=")
	for _, cookie := range []string{"", sessionCookieName + "=" + key, endCookieName + "=other"} {
		require.Equal(t, "/", serve(h, "GET", answer.Continue, "", "Cookie", cookie).Header().Get("Location"), cookie)
	}
	require.Equal(t, "/", serve(h, "GET", endPath, "", "Cookie", cookie).Header().Get("Location"))
	for _, header := range [][]string{nil, sessionHeadersWith("a token of Fleet"), sessionHeadersWith("good")[:2]} {
		require.Equal(t, http.StatusNoContent, serve(h, "DELETE", "/session", "", header...).Code, header)
	}
	f.err = status.Error(codes.Unavailable, "the issuer is down")
	require.Equal(t, http.StatusNoContent, serve(h, "DELETE", "/session", "", sessionHeadersWith("good")...).Code)
	require.Equal(t, http.StatusNoContent, serve(newSignInPage(t, nil, ""), "DELETE", "/session", "", sessionHeadersWith("good")...).Code)
}

// newSignInPage returns the page of a server with the issuer; without one if f is nil.
func newSignInPage(t *testing.T, f *fakeIssuer, publicURL string) http.Handler {
	t.Helper()
	c := SessionConfig{Identify: identify, Auth: []string{"tokens", "oidc"}, IssuerURL: "https://issuer.example.com", PublicURL: publicURL}
	if f != nil {
		c.Issuer = f
	}
	h, err := Handler(http.NotFoundHandler(), NewSessions(c))
	require.NoError(t, err)
	return h
}

// cookies returns the cookies of an answer as a browser sends them.
func cookies(w *httptest.ResponseRecorder) string {
	var all []string
	for _, c := range w.Result().Cookies() {
		if c.MaxAge >= 0 {
			all = append(all, c.Name+"="+c.Value)
		}
	}
	return strings.Join(all, "; ")
}

// arrivalIn returns the arrival in the page that a browser gets when it comes back from the issuer.
func arrivalIn(t *testing.T, w *httptest.ResponseRecorder) (a arrival) {
	t.Helper()
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	require.Contains(t, w.Body.String(), `<div id="app">`)
	_, block, found := strings.Cut(w.Body.String(), `id="arrival">`)
	require.True(t, found)
	block, _, _ = strings.Cut(block, "</script>")
	require.NoError(t, json.Unmarshal([]byte(block), &a))
	return a
}

func TestSignIn(t *testing.T) {
	t.Parallel()
	f := &fakeIssuer{token: "good"}
	h := newSignInPage(t, f, "")
	begin := func(to string) (cookie, state string) {
		w := serve(h, "GET", "/session/oidc?mark=</script>&to="+url.QueryEscape(to), "")
		require.Equal(t, http.StatusFound, w.Code, w.Body)
		at, err := w.Result().Location()
		require.NoError(t, err)
		require.Equal(t, "http://example.com/session/oidc/callback", at.Query().Get("redirect_uri"))
		require.Equal(t, http.SameSiteLaxMode, w.Result().Cookies()[0].SameSite)
		require.True(t, w.Result().Cookies()[0].HttpOnly)
		return cookies(w), at.Query().Get("state")
	}
	for to, want := range map[string]string{
		"/tasks?q=x": "/tasks?q=x", "": "/", "https://evil.example.com/": "/", "//evil.example.com": "/", `/\evil.example.com`: "/",
		"/session/oidc": "/", "tasks": "/", "javascript:alert(1)": "/", "/tasks/../../evil": "/tasks/../../evil", "/tasks#session=x": "/tasks",
	} {
		cookie, state := begin(to)
		w := serve(h, "GET", "/session/oidc/callback?code=code&state="+state, "", "Cookie", cookie)
		require.Equal(t, want, arrivalIn(t, w).To, to)
	}

	cookie, state := begin("/")
	w := serve(h, "GET", "/session/oidc/callback?code=code&state="+state, "", "Cookie", cookie)
	for _, c := range w.Result().Cookies() {
		require.True(t, c.HttpOnly, c.Name)
		require.Equal(t, c.Name == attemptCookieName, c.SameSite == http.SameSiteLaxMode, c.Name)
		require.False(t, c.Secure, c.Name)
	}
	require.NotContains(t, w.Body.String(), "good")
	require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
	require.Equal(t, contentSecurityPolicy, w.Header().Get("Content-Security-Policy"))
	require.Equal(t, "</script>", arrivalIn(t, w).Mark)
	require.Contains(t, serve(h, "GET", "/session", "", "Cookie", cookies(w), sessionHeaderName, arrivalIn(t, w).Session).Body.String(), `"signed_in":true`)
	require.Contains(t, serve(h, "GET", "/session", "", "Cookie", cookies(w), sessionHeaderName, arrivalIn(t, w).Refresh).Body.String(), `"signed_in":false`)

	for name, c := range map[string]struct{ cookie, query, says string }{
		"another state":   {cookie, "code=code&state=other", "not begun in this browser"},
		"no state":        {cookie, "code=code", "not begun in this browser"},
		"no cookie":       {"", "code=code&state=" + state, "not begun in this browser"},
		"a broken cookie": {attemptCookieName + "=e30", "code=code&state=", "not begun in this browser"},
		"another code":    {cookie, "code=other&state=" + state, "The code is wrong"},
		"denied":          {cookie, "error=access_denied&state=" + state, "did not allow"},
		"another error":   {cookie, "error=%3Cscript%3E&state=" + state, "&lt;script&gt;"},
	} {
		w := serve(h, "GET", "/session/oidc/callback?"+c.query, "", "Cookie", c.cookie)
		require.GreaterOrEqual(t, w.Code, 400, name)
		require.Contains(t, strings.ToLower(w.Body.String()), strings.ToLower(c.says), name)
		require.NotContains(t, cookies(w), sessionCookieName, name)
		require.NotContains(t, w.Body.String(), "<script", name)
	}

	f.token = strings.Repeat("x", 6000)
	cookie, state = begin("/")
	w = serve(h, "GET", "/session/oidc/callback?code=code&state="+state, "", "Cookie", cookie)
	require.Contains(t, w.Body.String(), "too long for a browser")
}

func TestRefresh(t *testing.T) {
	t.Parallel()
	f := &fakeIssuer{token: "good"}
	h := newSignInPage(t, f, "")
	refresh := func(token string, header ...string) *httptest.ResponseRecorder {
		if header == nil {
			header = sessionHeadersWith("expired")
		}
		return serve(h, "POST", "/session/refresh", `{"refresh":"`+newBox(refreshPurpose, "key").seal(token)+`"}`, header...)
	}
	w := refresh("refresh-1")
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, sessionCookieName+"=key", cookies(w), "the key must stay, because other tabs use it")
	require.Contains(t, serve(h, "GET", "/session", "", sessionHeadersFrom(t, w)...).Body.String(), `"signed_in":true`)
	var sealed sealedSession
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &sealed))
	require.Equal(t, "refresh-2", newBox(refreshPurpose, "key").open(sealed.Refresh))

	require.Equal(t, http.StatusUnauthorized, refresh("refresh-0").Code)
	require.Equal(t, http.StatusUnauthorized, refresh("refresh-1", "Cookie", sessionCookieName+"=other").Code)
	require.Equal(t, http.StatusUnauthorized, refresh("refresh-1", "Cookie", "x=y").Code)
	require.Equal(t, http.StatusUnauthorized, serve(h, "POST", "/session/refresh", "", sessionHeadersWith("expired")...).Code)
	session := newBox(sessionPurpose, "key").seal("refresh-1")
	require.Equal(t, http.StatusUnauthorized, serve(h, "POST", "/session/refresh", `{"refresh":"`+session+`"}`, sessionHeadersWith("expired")...).Code)
	f.err = status.Error(codes.Unavailable, "the issuer cannot be reached")
	require.Equal(t, http.StatusServiceUnavailable, refresh("refresh-1").Code)
	f.err, f.token = nil, strings.Repeat("x", 6000)
	require.Equal(t, http.StatusBadGateway, refresh("refresh-1").Code)

	require.Empty(t, cookies(serve(h, "DELETE", "/session", "")))
}

func TestSignInAtPublicURL(t *testing.T) {
	t.Parallel()
	h := newSignInPage(t, &fakeIssuer{token: "good"}, "https://fleet.example.com/")
	w := serve(h, "GET", "/session/oidc?to=/tasks", "")
	require.Equal(t, "https://fleet.example.com/session/oidc?redirected=1&to=/tasks", w.Header().Get("Location"))
	require.Empty(t, w.Result().Cookies())
	w = serve(h, "GET", "/session/oidc?redirected=1&to=/tasks", "") // a proxy has changed the host
	require.Contains(t, w.Header().Get("Location"), "https://issuer.example.com/")
	require.Len(t, w.Result().Cookies(), 1)
	for _, publicURL := range []string{"http://Example.com", "http://example.com:80", "http://EXAMPLE.COM:80/"} {
		w = serve(newSignInPage(t, &fakeIssuer{token: "good"}, publicURL), "GET", "/session/oidc", "")
		require.Contains(t, w.Header().Get("Location"), "https://issuer.example.com/", publicURL)
	}
	w = serve(newSignInPage(t, &fakeIssuer{token: "good"}, "http://example.com:443"), "GET", "/session/oidc", "")
	require.Equal(t, "http://example.com:443/session/oidc?redirected=1&", w.Header().Get("Location"))
	r := httptest.NewRequest(http.MethodGet, "https://fleet.example.com/session/oidc", nil)
	w = httptest.NewRecorder()
	h.ServeHTTP(w, r)
	require.Contains(t, w.Header().Get("Location"), url.QueryEscape("https://fleet.example.com/session/oidc/callback"))
	require.True(t, w.Result().Cookies()[0].Secure)
}

// TestShowSession checks that a server without an issuer shows the session, and refuses a sign-in with an issuer.
func TestShowSession(t *testing.T) {
	t.Parallel()
	var shown struct {
		Auth     []string
		Issuer   string
		SignedIn bool `json:"signed_in"`
	}
	w := serve(newSignInPage(t, nil, ""), "GET", "/session", "", sessionHeadersWith("good")...)
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &shown))
	require.Equal(t, []string{"tokens", "oidc"}, shown.Auth)
	require.Equal(t, "https://issuer.example.com", shown.Issuer)
	require.True(t, shown.SignedIn)
	require.Equal(t, http.StatusNotFound, serve(newSignInPage(t, nil, ""), "GET", "/session/oidc", "").Code)
}
