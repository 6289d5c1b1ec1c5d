package page

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

// FuzzAttempt checks that no cookie of a sign-in can send the browser to another site.
func FuzzAttempt(f *testing.F) {
	for _, to := range []string{"/agents/papi?x=1", "//evil.example", `/\evil.example`, "https://evil.example/agents", "/agents/../../x", "/%2fevil.example"} {
		f.Add(base64.RawURLEncoding.EncodeToString([]byte(`{"State":"s","Nonce":"n","Verifier":"v","To":"` + to + `"}`)))
	}
	f.Add("e30")
	f.Add("=")
	here, err := url.Parse("https://fleet.example/session/sign-in")
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, value string) {
		a := attemptOf(&http.Request{Header: http.Header{"Cookie": {attemptCookieName + "=" + value}}})
		if a.To == "" {
			require.Zero(t, a)
			return
		}
		to, err := here.Parse(a.To)
		require.NoError(t, err)
		require.Equal(t, "https://fleet.example", to.Scheme+"://"+to.Host, a.To)
	})
}

// FuzzViewPath checks that no value of ?to= can send the browser to another site.
func FuzzViewPath(f *testing.F) {
	for _, to := range []string{"/agents/papi?x=1", "//evil.example", `/\evil.example`, "/\t/evil.example", "/agents\n", "/?a=//b", "/#//c", "/agents/%5c%5cevil", "/?\u0085"} {
		f.Add(to)
	}
	f.Fuzz(func(t *testing.T, to string) {
		path := viewPath(to)
		require.Equal(t, byte('/'), path[0])
		before, _, _ := strings.Cut(path, "#")
		for _, c := range before { // browsers drop control characters and read \ as /
			require.True(t, !unicode.IsControl(c) && c != '\\', "%q", path)
		}
		require.False(t, len(path) > 1 && path[1] == '/', "%q", path)
	})
}

// FuzzSession checks that the server does not accept a session that it has not made.
func FuzzSession(f *testing.F) {
	f.Add("key", newBox(refreshPurpose, "key").seal("a token"))
	f.Add("", newBox(sessionPurpose, "").seal("a token"))
	f.Add("other", newBox(sessionPurpose, "third").seal("a token"))
	f.Fuzz(func(t *testing.T, key, session string) {
		r := &http.Request{Header: http.Header{"Cookie": {sessionCookieName + "=" + key}, sessionHeaderName: {session}}}
		require.Empty(t, tokenOf(r))
	})
}
