package page

import (
	"cmp"
	"crypto/rand"
	"net/http"
	"net/url"
	"time"
)

// deleteSession removes the cookie. If the issuer has a session of the browser too, the answer has the path at which the browser
// can end that session.
func (s *Sessions) deleteSession(w http.ResponseWriter, r *http.Request) {
	http.SetCookie(w, s.cookie(r, "", -1))
	if token := tokenOf(r); s.endURL(r, token) != "" {
		key := rand.Text() // not the key of the session, because the address may get into the log of a proxy
		http.SetCookie(w, s.endCookie(r, key, int(endLifetime/time.Second)))
		writeJSON(w, map[string]any{"continue": endPath + "?" + url.Values{"session": {newBox(endPurpose, key).seal(token)}}.Encode()})
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// endIssuerSession sends a browser that has just signed out to the issuer.
func (s *Sessions) endIssuerSession(w http.ResponseWriter, r *http.Request) {
	token, _ := unseal(r, endCookieName, endPurpose, r.URL.Query().Get("session"))
	to := s.endURL(r, token)
	http.SetCookie(w, s.endCookie(r, "", -1))
	w.Header().Set("Referrer-Policy", "no-referrer")
	http.Redirect(w, r, cmp.Or(to, "/"), http.StatusFound)
}

// endURL returns the address at which the issuer ends the session of the token. It returns "" if there is none. It also
// returns "" if the issuer does not answer, because the browser is signed out of Fleet in any case.
func (s *Sessions) endURL(r *http.Request, token string) string {
	if s.config.Issuer == nil || token == "" {
		return ""
	}
	address, err := s.config.Issuer.EndSessionURL(r.Context(), token)
	if err != nil {
		return ""
	}
	return address
}

// endCookieName is the name of the cookie with the key for the token of a session that has ended. endLifetime is how long the browser may take
// to end the issuer's session too.
const (
	endCookieName = "fleet_sign_out"
	endLifetime   = time.Minute
)

func (s *Sessions) endCookie(r *http.Request, value string, maxAge int) *http.Cookie {
	c := s.cookie(r, value, maxAge)
	c.Name, c.Path = endCookieName, endPath
	return c
}
