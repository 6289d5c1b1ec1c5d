package page

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"fleet/internal/face/wire"
)

// A browser's session is an encrypted token and its key. Scripts cannot read the cookie with the key. But browsers send a
// cookie to every port of its host, and a program of an agent may listen at another port. So the page keeps the encrypted
// token in the browser's storage, which belongs to one port, and sends it in a header. The server keeps neither part.
//
// A program that has the key can encrypt another token with it. So the page takes sessions only from answers to its own requests.
const (
	sessionCookieName = "fleet_session"
	sessionHeaderName = "Fleet-Session"
)

// These are the purposes of boxes.
const (
	sessionPurpose = "page session" // with the key of the session
	refreshPurpose = "page refresh" // with the same key
	endPurpose     = "page end"     // with another key
)

// cookieMaxAge is how long the browser keeps the cookie, in seconds.
const cookieMaxAge = int(30 * 24 * time.Hour / time.Second)

// maxBody is the size of the largest body of a request for a session, in bytes.
const maxBody = 8 << 10

// Sessions signs browsers in and out:
//
//	GET    /session                says how the browser can sign in: {"auth": ["tokens", "oidc"], "issuer": "...", "signed_in": true}
//	POST   /session                {"token": "..."} or {"code": "..."}: sets the cookie, and returns {"session": "..."}
//	DELETE /session                removes the cookie; {"continue": "..."} is where the browser ends its session with the issuer too
//	POST   /session/links          with a token: returns a code that signs in once, within a minute
//	GET    /session/oidc           sends the browser to the issuer. The issuer sends it back to /session/oidc/callback, and the answer
//	                               is the page with a session
//	GET    /session/oidc/end       sends a browser that has just signed out to the issuer
//	POST   /session/refresh        {"refresh": "..."}: returns the session with a new token, after its token has expired
type Sessions struct {
	config SessionConfig
	links  *links
}

// SessionConfig configures Sessions. Identify and Leases are required.
type SessionConfig struct {
	// Identify checks the Authorization headers of a request. It returns a gRPC status if the caller is not accepted. The code is
	// ResourceExhausted for a known caller who has sent too many requests.
	Identify func(ctx context.Context, authorization []string) error
	// Leases are those of the store. LinkKey is a secret that all servers of the fleet share, so that each of them accepts the
	// links of the others; nil if there is none.
	Leases  Leases
	LinkKey []byte
	// Auth lists the ways in which callers can identify themselves: "none", or some of "tokens", "coder" and "oidc".
	Auth []string
	// Issuer signs people in; it is nil if the server has no issuer. IssuerURL is the issuer's identifier.
	Issuer    Issuer
	IssuerURL string
	// PublicURL is the URL at which browsers reach the server. If it is empty, the URL of the request is used.
	PublicURL string
}

// NewSessions returns the sessions of a server.
func NewSessions(c SessionConfig) *Sessions {
	return &Sessions{config: c, links: newLinks(c.LinkKey, c.Leases)}
}

// ServeHTTP answers a request for a session. inbound.Guard must have refused requests of foreign web pages before.
func (s *Sessions) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	switch r.Method + " " + r.URL.Path {
	case "GET /session":
		s.showSession(w, r)
	case "POST /session":
		s.createSession(w, r)
	case "DELETE /session":
		s.deleteSession(w, r)
	case "POST /session/links":
		s.createLink(w, r)
	case "POST /session/refresh":
		s.refreshSession(w, r)
	case "GET " + signInPath:
		s.signIn(w, r)
	case "GET " + callbackPath:
		s.callback(w, r)
	case "GET " + endPath:
		s.endIssuerSession(w, r)
	default:
		wire.WriteErrorObject(w, http.StatusNotFound, wire.Error{Reason: "NOT_FOUND", Message: "there is no such path: GET, POST or DELETE /session, POST /session/links, GET /session/oidc, POST /session/refresh"})
	}
}

// showSession tells the browser in which ways it can sign in, and whether it is signed in.
func (s *Sessions) showSession(w http.ResponseWriter, r *http.Request) {
	var authorization []string
	if token := tokenOf(r); token != "" {
		authorization = []string{"Bearer " + token}
	}
	code := status.Code(s.config.Identify(r.Context(), authorization))
	signedIn := code != codes.Unauthenticated && code != codes.PermissionDenied // the browser stays signed in if the issuer is down
	writeJSON(w, map[string]any{"auth": s.config.Auth, "issuer": s.config.IssuerURL, "signed_in": signedIn})
}

// createSession begins a session with a token, or with the token of a code.
func (s *Sessions) createSession(w http.ResponseWriter, r *http.Request) {
	var body struct{ Token, Code string }
	if err := json.NewDecoder(io.LimitReader(r.Body, maxBody)).Decode(&body); err != nil {
		wire.WriteErrorObject(w, http.StatusBadRequest, wire.Error{Reason: wire.ReasonInvalidArgument, Message: "the body must be a JSON object with a token or a code"})
		return
	}
	token := strings.TrimSpace(body.Token)
	if body.Code != "" {
		var err error
		if token, err = s.links.redeem(r.Context(), body.Code); err != nil {
			wire.WriteErrorObject(w, http.StatusServiceUnavailable, errStore)
			return
		}
		if token == "" {
			wire.WriteErrorObject(w, http.StatusUnauthorized, wire.Error{Reason: "UNAUTHENTICATED", Message: "the link was used already or is older than a minute; run `fleet open` again"})
			return
		}
	}
	if token == "" {
		wire.WriteErrorObject(w, http.StatusBadRequest, wire.Error{Reason: wire.ReasonInvalidArgument, Message: "the body has neither a token nor a code"})
		return
	}
	if err := s.config.Identify(r.Context(), []string{"Bearer " + token}); err != nil {
		wire.WriteError(w, err)
		return
	}
	writeJSON(w, s.startSession(w, r, token, ""))
}

// sealedSession is the part of a session that the page keeps.
type sealedSession struct {
	Session string `json:"session"`
	Refresh string `json:"refresh,omitempty"` // the encrypted refresh token, if the issuer has given one
}

// startSession sets the cookie for a new session, and returns the part of the session that the page keeps.
func (s *Sessions) startSession(w http.ResponseWriter, r *http.Request, token, refresh string) sealedSession {
	key := rand.Text()
	http.SetCookie(w, s.cookie(r, key, cookieMaxAge))
	return sealTokens(key, token, refresh)
}

// sealTokens encrypts the tokens of a session with its key.
func sealTokens(key, token, refresh string) sealedSession {
	sealed := sealedSession{Session: newBox(sessionPurpose, key).seal(token)}
	if refresh != "" && len(refresh) <= maxToken { // without it, the session ends with its token
		sealed.Refresh = newBox(refreshPurpose, key).seal(refresh)
	}
	return sealed
}

// unseal decrypts a text with the key in the cookie, and returns the text and the key. The request can have several cookies
// of this name, because another port can set one for a longer path. unseal tries each, and returns "" if none fits.
func unseal(r *http.Request, cookie, purpose, sealed string) (text, key string) {
	for _, c := range r.CookiesNamed(cookie) {
		if text := newBox(purpose, c.Value).open(sealed); text != "" && c.Value != "" {
			return text, c.Value
		}
	}
	return "", ""
}

// tokenOf returns the token of the browser's session. It returns "" if the request is not from the page in a browser that
// has a session.
func tokenOf(r *http.Request) string {
	token, _ := unseal(r, sessionCookieName, sessionPurpose, r.Header.Get(sessionHeaderName))
	return token
}

// createLink answers a caller with a code for its token, which can be redeemed once. The code is "" if the caller needs no token.
func (s *Sessions) createLink(w http.ResponseWriter, r *http.Request) {
	authorization := r.Header.Values("Authorization")
	if err := s.config.Identify(r.Context(), authorization); err != nil {
		wire.WriteError(w, err)
		return
	}
	token := ""
	if len(authorization) == 1 {
		_, token, _ = strings.Cut(authorization[0], " ") // the scheme was checked
		token = strings.TrimSpace(token)
	}
	code := ""
	if token != "" { // a server that requires no token needs no code
		var err error
		if code, err = s.links.newCode(r.Context(), token); err != nil {
			wire.WriteErrorObject(w, http.StatusServiceUnavailable, errStore)
			return
		}
		if code == "" {
			w.Header().Set("Retry-After", strconv.Itoa(linkSeconds))
			wire.WriteErrorObject(w, http.StatusTooManyRequests, wire.Error{
				Reason: "LIMIT_REACHED", Message: "too many links are open; try again in a minute", Details: map[string]any{"retry_after_seconds": linkSeconds},
			})
			return
		}
	}
	writeJSON(w, map[string]any{"code": code, "expires_in_seconds": linkSeconds})
}

func writeJSON(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value) // the client may have disconnected
}

// errStore is the error of a request for which the store with the leases does not answer.
var errStore = wire.Error{Reason: "BACKEND_UNAVAILABLE", Message: "the server's database does not answer; try again in a moment"}

// withToken returns the request with the token of the browser's session, if it is a request of the API without
// credentials.
func withToken(r *http.Request) *http.Request {
	isAPI := strings.HasPrefix(r.URL.Path, "/v1/") || strings.HasPrefix(r.URL.Path, "/api/")
	if !isAPI || r.Header.Get("Authorization") != "" {
		return r
	}
	token := tokenOf(r)
	if token == "" {
		return r
	}
	in := r.Clone(r.Context())
	in.Header.Set("Authorization", "Bearer "+token)
	return in
}

// numericAddress returns the page's address at 127.0.0.1 for a browser that has reached the server there by the name localhost. It
// returns "" for other requests. Browsers first try [::1] for localhost. A program of an agent may listen there at the same
// port, and would get the data that the page keeps for localhost.
func (s *Sessions) numericAddress(r *http.Request) string {
	local, _ := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	name, port, err := net.SplitHostPort(r.Host)
	if err != nil || local == nil || !local.IP.Equal(net.IPv4(127, 0, 0, 1)) || name != "localhost" || s.config.PublicURL != "" || r.TLS != nil {
		return ""
	}
	return "http://" + net.JoinHostPort("127.0.0.1", port) + r.URL.RequestURI()
}

// cookie returns the cookie of a session. maxAge is in seconds; a negative maxAge removes the cookie.
func (s *Sessions) cookie(r *http.Request, value string, maxAge int) *http.Cookie {
	return &http.Cookie{
		Name: sessionCookieName, Value: value, Path: "/", MaxAge: maxAge, HttpOnly: true, Secure: s.isSecure(r), SameSite: http.SameSiteStrictMode,
	}
}

// isSecure reports whether the browser reaches the server by TLS, which a proxy may end.
func (s *Sessions) isSecure(r *http.Request) bool {
	return r.TLS != nil || strings.HasPrefix(s.config.PublicURL, "https://")
}
