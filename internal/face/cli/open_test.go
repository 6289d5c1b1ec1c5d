package cli

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestOpenSendsTheTokenOnlyToTheServer checks that "fleet open" sends the token neither to this machine, if the server is on another machine,
// nor unencrypted to another machine.
func TestOpenSendsTheTokenOnlyToTheServer(t *testing.T) {
	t.Parallel()
	var tokens []string
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tokens = append(tokens, r.Header.Get("Authorization"))
		_, _ = w.Write([]byte(`{"code": "c"}`))
	}))
	defer page.Close()
	_, err := newLinkCode(t.Context(), page.URL, Target{Server: "fleet.example.com:8102", Token: "x"})
	require.ErrorContains(t, err, "which is this machine and not fleet.example.com:8102; set public_url in the server's configuration")
	require.Empty(t, tokens)
	code, err := newLinkCode(t.Context(), page.URL, Target{Server: "127.0.0.1:8102", Token: "x"})
	require.NoError(t, err)
	require.Equal(t, "c", code)
	require.Equal(t, []string{"Bearer x"}, tokens)

	const remote = "http://fleet.example.com:8101"
	for _, c := range []struct {
		url       string
		target    Target
		withToken bool
		says      string
	}{
		{remote, Target{Server: "fleet.example.com:8102"}, true, "the token would go to http://fleet.example.com:8101 unencrypted"},
		{remote, Target{Server: "127.0.0.1:8102"}, true, "unencrypted"},
		{remote, Target{Server: "fleet.example.com:8102", Insecure: true}, true, ""},
		{remote, Target{Server: "fleet.example.com:8102"}, false, ""},
		{"https://fleet.example.com", Target{Server: "fleet.example.com:8102"}, true, ""},
		{"http://[::1]:8101", Target{Server: "fleet.example.com:8102", Embedded: true}, true, ""},
		{"http://localhost:8101", Target{Server: "fleet.example.com:8102", Insecure: true}, false, "set public_url"},
	} {
		if err := checkPageURL(c.url, c.target, c.withToken); c.says == "" {
			require.NoError(t, err, c)
		} else {
			require.ErrorContains(t, err, c.says, c)
		}
	}
}
