package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/runner/proxy"
)

// TestProxy checks that a client reaches the allowed addresses, over HTTP and HTTPS, and gets an error for other
// addresses. It also checks that the proxy removes the header Proxy-Authorization and adds no X-Forwarded-For.
func TestProxy(t *testing.T) {
	t.Parallel()
	hello := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprint(w, "hello ", r.Host, " ", r.URL.Path, " ", r.Header.Get("Proxy-Authorization"), r.Header.Get("X-Forwarded-For"))
	})
	plain, secure, forbidden := httptest.NewServer(hello), httptest.NewTLSServer(hello), httptest.NewServer(hello)
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)
	t.Cleanup(forbidden.Close)
	hostOf := func(s *httptest.Server) string {
		u, err := url.Parse(s.URL)
		require.NoError(t, err)
		return u.Host
	}
	p := httptest.NewServer(proxy.New([]string{hostOf(plain), hostOf(secure)}))
	t.Cleanup(p.Close)
	proxyURL, err := url.Parse(p.URL)
	require.NoError(t, err)
	client := secure.Client()
	client.Transport.(*http.Transport).Proxy = http.ProxyURL(proxyURL)
	get := func(address string, change func(*http.Request)) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
		require.NoError(t, err)
		if change != nil {
			change(r)
		}
		a, err := client.Do(r)
		if err != nil {
			return 0, err.Error()
		}
		defer func() { _ = a.Body.Close() }()
		b, err := io.ReadAll(a.Body)
		require.NoError(t, err)
		return a.StatusCode, string(b)
	}
	code, body := get(plain.URL+"/a", func(r *http.Request) { r.Header.Set("Proxy-Authorization", "x") })
	require.Equal(t, 200, code, body)
	require.Equal(t, "hello "+hostOf(plain)+" /a ", body)
	code, body = get(secure.URL+"/b", nil)
	require.Equal(t, 200, code, body)
	require.Contains(t, body, "/b")
	code, body = get(forbidden.URL, nil)
	require.Equal(t, 403, code)
	require.Contains(t, body, "the project does not allow "+hostOf(forbidden))
	_, body = get("https://"+hostOf(forbidden), nil)
	require.Contains(t, body, "Forbidden")
	code, _ = get("http://example.com", nil)
	require.Equal(t, 403, code)
	direct, err := http.Get(p.URL + "/path") //nolint:noctx // a request to the proxy itself
	require.NoError(t, err)
	defer func() { _ = direct.Body.Close() }()
	require.Equal(t, 400, direct.StatusCode)
}
