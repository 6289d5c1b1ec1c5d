package browser

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/stretchr/testify/require"

	"fleet/internal/app"
)

// TestSignIn signs in and out as two principals, who see only their own agents.
func TestSignIn(t *testing.T) {
	t.Parallel()
	s, tokens := serveTokens(t, "alice", "bob")
	for name, token := range tokens {
		s.createAgentAs(t, token, "of-"+name, "Try things")
	}
	for name, other := range map[string]string{"alice": "bob", "bob": "alice"} {
		b := openAt(t, s.home, "/")
		b.allowErrors("401")
		b.waitForText("Sign in")
		b.fill("Token", "fleet_wrong")
		b.press("Sign in")
		b.waitForText("unknown, expired or revoked")
		b.fill("Token", tokens[name])
		b.press("Sign in")
		b.waitForText("of-" + name)
		require.NotContains(t, b.text(), "of-"+other)

		require.Empty(t, eval[string](b, `document.cookie`), "scripts must not be able to read the cookie")
		cookies := call(b, network.GetCookies, network.GetCookiesParams{}).Cookies
		require.Len(t, cookies, 1)
		require.True(t, cookies[0].HTTPOnly)
		require.Equal(t, network.CookieSameSiteStrict, cookies[0].SameSite)
		stored := eval[string](b, `localStorage['fleet-session']`)
		for _, part := range []string{cookies[0].Value, stored} {
			require.NotContains(t, part, tokens[name], "neither the cookie nor the storage may have the token")
		}

		// The browser sends the cookie to every port of the host, so the cookie alone must not be enough for a call.
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.home+"/v1/agents", nil)
		require.NoError(t, err)
		request.AddCookie(&http.Cookie{Name: cookies[0].Name, Value: cookies[0].Value})
		response, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, http.StatusUnauthorized, response.StatusCode)

		b.goTo("/admin")
		b.allowErrors("403")
		b.press("Sign out")
		b.waitForText("This server wants to know who you are")
	}
}

// TestSignInAgain signs in after the session has ended. The same principal finds what they have written, and another one nothing. An answer
// about the earlier session that comes late must not end the new one.
func TestSignInAgain(t *testing.T) {
	t.Parallel()
	s, tokens := serveTokens(t, "alice", "bob")
	for name, token := range tokens {
		s.createAgentAs(t, token, "of-"+name, "Try things")
	}
	b := s.openSignedIn(t, tokens["alice"])
	b.waitForText("of-alice")
	b.fill("What is to be done", "half a sentence")
	const written = `() => document.querySelector('.prompt textarea')?.value === 'half a sentence'`
	endSession := func() {
		t.Helper()
		eval[bool](b, `delete localStorage['fleet-session'], true`)
		b.press("Usage") // its two calls end the session
		b.waitForText("Your session has ended.")
		b.fill("Token", "") // waits for the form, whose own look at the session must not be held back below
	}
	signInAgain := func(token string) {
		t.Helper()
		b.press("Fleet")
		b.fill("Token", token)
		b.press("Sign in")
	}
	b.intercept(`async (method, path, send) => {
		const answer = await send()
		if (path === '/v1/usage' && answer.status === 401 && (window.refused = (window.refused ?? 0) + 1) === 2)
			await new Promise(done => { window.refuse = done })
		if (path === '/session' && method === 'GET' && window.hold) await new Promise(done => { window.answer = done })
		return answer
	}`)
	endSession()
	require.NoError(t, b.waitUntil(`() => !!window.refuse`))
	eval[bool](b, `window.hold = true, window.refuse(), true`)
	require.NoError(t, b.waitUntil(`() => !!window.answer`)) // it says that nobody is signed in
	eval[bool](b, `window.hold = false, true`)
	signInAgain(tokens["alice"])
	require.NoError(t, b.waitUntil(`() => !!localStorage['fleet-session']`))
	eval[bool](b, `window.answer(), true`)
	b.waitForText("of-alice")
	b.press("Usage")
	b.waitForText("7 days")
	b.press("Fleet")
	b.waitForText("of-alice")
	require.NoError(t, b.waitUntil(written))

	b.intercept(`async (method, path, send) => {
		if (path === '/v1/fleet') await new Promise(done => { window.go = done })
		return send()
	}`)
	endSession()
	signInAgain(tokens["bob"])
	require.NoError(t, b.waitUntil(`() => !!window.go`))
	require.NotContains(t, b.text(), "of-alice")
	eval[bool](b, `window.go(), true`)
	b.waitForText("of-bob")
	require.NotContains(t, b.text(), "of-alice")
	require.False(t, eval[bool](b, `(`+written+`)()`))
}

// TestBlockedStorage signs in with a browser whose user has blocked the storage of pages. The session lasts until the page
// is left.
func TestBlockedStorage(t *testing.T) {
	t.Parallel()
	s, tokens := serveTokens(t, "alice")
	b := openTab(t, s.home)
	b.allowErrors("401")
	call(b, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{
		Source: `Object.defineProperty(window, 'localStorage', { get() { throw new DOMException('denied', 'SecurityError') } })`,
	})
	b.goTo("/")
	b.fill("Token", tokens["alice"])
	b.press("Sign in")
	b.waitForText("No agents yet")
	b.press("Colours: system")
	b.press("Colours: dark")
	b.allowErrors("403")
	b.press("Admin")
	b.press("Sign out")
	b.waitForText("This server wants to know who you are")
}

// TestLink signs in with a link that works only once, and does not replace the session of a browser that is signed in.
func TestLink(t *testing.T) {
	t.Parallel()
	s, tokens := serveTokens(t, "alice", "mallory")
	newLink := func(name string) string {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.home+"/session/links", nil)
		require.NoError(t, err)
		request.Header.Set("Authorization", "Bearer "+tokens[name])
		response, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		defer response.Body.Close()
		var link struct{ Code string }
		require.NoError(t, json.NewDecoder(response.Body).Decode(&link))
		return "#code=" + link.Code
	}
	b := openTab(t, s.home) // before the link, because a link does not work for long, and the browser may have to start
	second := openTab(t, s.home)
	second.allowErrors("401")
	aliceLink := newLink("alice")
	b.goTo("/" + aliceLink)
	b.waitForText("No agents yet")
	require.Empty(t, eval[string](b, `location.hash`))

	second.goTo("/" + aliceLink)
	second.waitForText("was used already")

	third := openTab(t, s.home)
	malloryLink := newLink("mallory")
	b.goTo("/usage" + malloryLink) // another path, so that the browser loads the page again
	b.waitForText("alice")
	third.goTo("/" + malloryLink) // the link is unused, because alice's browser ignored it
	third.waitForText("mallory")
}

// TestForeignPage sends requests that another site could send from a signed-in browser. They must change nothing.
func TestForeignPage(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	for path, body := range map[string]string{"/session": `{"token":"x"}`, "/v1/agents": `{"name":"papi","project":"shell","spec":"x"}`} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.home+path, bytes.NewBufferString(body))
		require.NoError(t, err)
		request.Header.Set("Origin", "https://evil.example")
		request.Header.Set("Sec-Fetch-Site", "cross-site")
		response, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, http.StatusForbidden, response.StatusCode, path)
	}
}

// serveTokens starts a server that requires tokens, and returns the token of each person by name. The person root is an admin.
func serveTokens(t *testing.T, names ...string) (*server, map[string]string) {
	t.Helper()
	tokens := map[string]string{}
	s := serve(t, func(cfg *app.Config) {
		cfg.Auth = app.Auth{app.AuthTokens}
		for _, name := range names {
			arguments := []string{"token", "create", name, "--embedded", "-q"}
			if name == "root" {
				arguments = append(arguments, "--admin")
			}
			create := exec.CommandContext(t.Context(), os.Args[0], arguments...)
			create.Env = append(os.Environ(), "FLEET_DATA="+cfg.Data, "HOME="+t.TempDir())
			out, err := create.Output()
			require.NoError(t, err)
			tokens[name] = strings.TrimSpace(string(out))
		}
	})
	return s, tokens
}

// openSignedIn opens a tab that is signed in with the token.
func (s *server) openSignedIn(t *testing.T, token string) *tab {
	t.Helper()
	b := openAt(t, s.home, "/")
	b.allowErrors("404") // the page may be reading the newest task of an agent that is not shared any more
	b.allowErrors("401")
	b.fill("Token", token)
	b.press("Sign in")
	b.waitForText("Find or do")
	b.waitUntilGone("This server wants to know who you are")
	return b
}
