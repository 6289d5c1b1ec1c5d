package page

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"html"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"

	"fleet/internal/face/wire"
)

// Issuer signs people in. Its errors are gRPC statuses.
type Issuer interface {
	// AuthURL returns the address at which a person signs in. The issuer sends the browser to the address redirect
	// afterwards, with the state. Exchange gets the same nonce and verifier.
	AuthURL(ctx context.Context, redirect, state, nonce, verifier string) (string, error)
	// Exchange returns the token and the refresh token of a sign-in for the code that the issuer gave the browser.
	Exchange(ctx context.Context, redirect, code, nonce, verifier string) (token, refresh string, err error)
	// Refresh returns a new token and a new refresh token for the refresh token.
	Refresh(ctx context.Context, refresh string) (token, next string, err error)
	// EndSessionURL returns the address at which the browser ends its session with the issuer. It returns "" if the issuer has
	// no such address, or if the token is not from the issuer.
	EndSessionURL(ctx context.Context, token string) (string, error)
}

// The paths of signing in and out with the issuer.
const (
	signInPath   = "/session/oidc"
	callbackPath = signInPath + "/callback"
	endPath      = signInPath + "/end"
)

// signInLifetime is how long a sign-in may take.
const signInLifetime = 10 * time.Minute

// maxToken is the size of the largest token of an issuer, in bytes. Encrypted, it is a third larger. Proxies often refuse
// a header of more than 8 KB.
const maxToken = 5500

// signInAttempt is a sign-in that has begun. The browser keeps it in a cookie. So any server of the fleet can finish it, but only for this
// browser.
type signInAttempt struct {
	State, Nonce, Verifier string
	To                     string // path to go to afterwards
	Mark                   string // the page recognises its own sign-in by it
}

// redirectedParameter marks the address of a sign-in to which the browser was redirected from another host.
const redirectedParameter = "redirected"

// signIn sends the browser to the issuer. ?to= is the path to go to afterwards, and ?mark= the mark of the attempt.
func (s *Sessions) signIn(w http.ResponseWriter, r *http.Request) {
	if s.config.Issuer == nil {
		wire.WriteErrorObject(w, http.StatusNotFound, wire.Error{Reason: "NOT_FOUND", Message: "this server has no issuer to sign in with: use a token"})
		return
	}
	base := s.baseURL(r)
	// The cookie of the attempt is for the host that the issuer sends the browser to. A browser is redirected to this host only once: if the
	// request then has another host, a proxy has changed it.
	if u, err := url.Parse(base); err == nil && !isHost(u, r.Host) && !r.URL.Query().Has(redirectedParameter) {
		http.Redirect(w, r, base+signInPath+"?"+redirectedParameter+"=1&"+r.URL.RawQuery, http.StatusFound)
		return
	}
	a := signInAttempt{State: rand.Text(), Nonce: rand.Text(), Verifier: rand.Text() + rand.Text(), To: viewPath(r.URL.Query().Get("to")), Mark: r.URL.Query().Get("mark")}
	address, err := s.config.Issuer.AuthURL(r.Context(), base+callbackPath, a.State, a.Nonce, a.Verifier)
	if err != nil {
		writeFailure(w, wire.HTTPStatus(err), wire.ErrorOf(err).Message)
		return
	}
	value, err := json.Marshal(a)
	if err != nil {
		writeFailure(w, http.StatusInternalServerError, "the sign-in cannot begin")
		return
	}
	http.SetCookie(w, s.attemptCookie(r, base64.RawURLEncoding.EncodeToString(value), int(signInLifetime/time.Second)))
	http.Redirect(w, r, address, http.StatusFound)
}

// callback completes the sign-in of a browser that the issuer has sent back.
func (s *Sessions) callback(w http.ResponseWriter, r *http.Request) {
	a := attemptOf(r)
	http.SetCookie(w, s.attemptCookie(r, "", -1))
	q := r.URL.Query()
	switch {
	case s.config.Issuer == nil || a.State == "" || subtle.ConstantTimeCompare([]byte(a.State), []byte(q.Get("state"))) == 0:
		writeFailure(w, http.StatusBadRequest, "this sign-in was not begun in this browser, or took longer than 10 minutes")
		return
	case q.Get("error") == "access_denied":
		writeFailure(w, http.StatusForbidden, "the issuer did not allow the sign-in")
		return
	case q.Get("code") == "":
		writeFailure(w, http.StatusBadGateway, "the issuer refused the sign-in: "+q.Get("error"))
		return
	}
	token, refresh, err := s.config.Issuer.Exchange(r.Context(), s.baseURL(r)+callbackPath, q.Get("code"), a.Nonce, a.Verifier)
	if err != nil {
		writeFailure(w, wire.HTTPStatus(err), wire.ErrorOf(err).Message)
		return
	}
	if len(token) > maxToken {
		writeFailure(w, http.StatusBadGateway, tokenTooLong)
		return
	}
	if err := writeArrival(w, arrival{s.startSession(w, r, token, refresh), a.To, a.Mark}); err != nil {
		writeFailure(w, http.StatusInternalServerError, "the page cannot be shown")
	}
}

// arrival is the data that the page gets when the browser comes back from the issuer.
type arrival struct {
	sealedSession
	To   string `json:"to"`
	Mark string `json:"mark"`
}

// refreshSession gives new tokens to a browser whose token has expired. The session keeps its key, because other tabs may be
// sending requests with it.
func (s *Sessions) refreshSession(w http.ResponseWriter, r *http.Request) {
	var body struct{ Refresh string }
	_ = json.NewDecoder(io.LimitReader(r.Body, 2*maxToken)).Decode(&body) // an invalid body has no refresh token
	refresh, key := unseal(r, sessionCookieName, refreshPurpose, body.Refresh)
	if refresh == "" || s.config.Issuer == nil {
		wire.WriteErrorObject(w, http.StatusUnauthorized, wire.Error{Reason: "UNAUTHENTICATED", Message: "the session cannot be refreshed: sign in"})
		return
	}
	token, next, err := s.config.Issuer.Refresh(r.Context(), refresh)
	switch {
	case err != nil:
		wire.WriteError(w, err)
	case len(token) > maxToken:
		wire.WriteErrorObject(w, http.StatusBadGateway, wire.Error{Reason: "BACKEND_UNAVAILABLE", Message: tokenTooLong})
	default:
		http.SetCookie(w, s.cookie(r, key, cookieMaxAge))
		writeJSON(w, sealTokens(key, token, next))
	}
}

const tokenTooLong = "the token of the issuer is too long for a browser: let the issuer put only the groups of this server's client into it"

// attemptCookieName is the name of the cookie with the attempt.
const attemptCookieName = "fleet_sign_in"

// attemptCookie returns the cookie with the attempt. The cookie is lax, not strict, because the browser comes back from
// the issuer's site.
func (s *Sessions) attemptCookie(r *http.Request, value string, maxAge int) *http.Cookie {
	c := s.cookie(r, value, maxAge)
	c.Name, c.Path, c.SameSite = attemptCookieName, signInPath, http.SameSiteLaxMode
	return c
}

// attemptOf returns the attempt in the request's cookie, with a safe To. It returns the zero value if there is none or it cannot be read.
func attemptOf(r *http.Request) (a signInAttempt) {
	c, err := r.Cookie(attemptCookieName)
	if err != nil {
		return a
	}
	value, err := base64.RawURLEncoding.DecodeString(c.Value)
	if err != nil || json.Unmarshal(value, &a) != nil {
		return signInAttempt{}
	}
	a.To = viewPath(a.To)
	return a
}

// baseURL returns the URL at which the browser reaches the server.
func (s *Sessions) baseURL(r *http.Request) string {
	switch {
	case s.config.PublicURL != "":
		return strings.TrimSuffix(s.config.PublicURL, "/")
	case r.TLS != nil:
		return "https://" + r.Host
	}
	return "http://" + r.Host // inbound.Guard has checked the host
}

// isHost reports whether the header Host of a request names the host of the URL. Capitals and the default port of the URL's scheme make no
// difference.
func isHost(u *url.URL, host string) bool {
	defaultPort := ":80"
	if u.Scheme == "https" {
		defaultPort = ":443"
	}
	return strings.EqualFold(strings.TrimSuffix(u.Host, defaultPort), strings.TrimSuffix(host, defaultPort))
}

// viewPath returns the path without its fragment if the page has a view for it, and "/" otherwise, because a link must
// not lead to another site. Browsers drop some control characters and read a backslash as a slash, so a path with
// one of them becomes "/" too.
func viewPath(to string) string {
	isUnsafe := func(c rune) bool { return unicode.IsControl(c) || c == '\\' }
	to, _, _ = strings.Cut(to, "#")
	u, err := url.Parse(to)
	if err != nil || u.IsAbs() || u.Host != "" || !strings.HasPrefix(to, "/") || strings.HasPrefix(to, "//") || strings.ContainsFunc(to, isUnsafe) || !isView(u.Path) {
		return "/"
	}
	return to
}

// setSignInHeaders sets the headers of the response to a sign-in, whether it has succeeded or failed.
func setSignInHeaders(h http.Header) {
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", contentSecurityPolicy)
	h.Set("Referrer-Policy", "no-referrer") // the address may have the code of the sign-in
}

// writeFailure shows a person why the sign-in failed.
func writeFailure(w http.ResponseWriter, status int, message string) {
	setSignInHeaders(w.Header())
	w.WriteHeader(status)
	_, _ = io.WriteString(w, `<!doctype html><html lang="en"><title>Sign in · Fleet</title><link rel="icon" href="data:,"><main><h1>You are not signed in</h1><p>`+ // the client may have disconnected
		html.EscapeString(message)+`</p><p><a href="/">Back to the page</a></p></main></html>`)
}
