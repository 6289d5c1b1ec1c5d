package browser

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/app"
	"fleet/internal/identity/oidc"
	"fleet/internal/identity/oidc/oidctest"
	"fleet/internal/waittest"
)

// serveIssuer starts an issuer with three users, and a server that accepts the kinds of credentials. Of the users, alice and bob have a
// role on the server, and carol has none.
func serveIssuer(t *testing.T, auth ...string) (*server, *oidctest.Issuer) {
	t.Helper()
	issuer := oidctest.New(t, oidctest.User{Subject: "1", Name: "alice", Groups: []string{"dev"}},
		oidctest.User{Subject: "2", Name: "bob", Groups: []string{"dev"}}, oidctest.User{Subject: "3", Name: "carol", Groups: []string{"staff"}})
	return serve(t, func(cfg *app.Config) {
		cfg.Auth = auth
		cfg.OIDC = oidc.Config{
			Issuer: issuer.URL, ClientID: oidctest.ClientID, ClientSecret: oidctest.ClientSecret, CLIClientID: oidctest.CLIClientID,
			Roles: map[string]string{"dev": "user"},
		}
	}), issuer
}

// TestSignInWithIssuer signs two people in with an issuer. They see only their own agents. It then tries a sign-in that the page did
// not begin, and signs a person in whose groups have no role. Both must fail.
func TestSignInWithIssuer(t *testing.T) {
	t.Parallel()
	s, issuer := serveIssuer(t, app.AuthTokens, app.AuthOIDC)
	for _, name := range []string{"alice", "bob"} {
		s.createAgentAs(t, issuer.IDToken(t, name), "of-"+name, "Try things")
	}
	signIn := "Sign in with " + issuer.URL[len("http://"):]
	for name, other := range map[string]string{"alice": "bob", "bob": "alice"} {
		b := openAt(t, s.home, "/?q=of")
		b.allowErrors("401")
		b.waitForText("An admin makes a token")
		b.savePictures("sign-in", 400, 1280)
		b.press(signIn)
		b.press("Continue as " + name)
		b.waitForText("of-" + name)
		require.NotContains(t, b.text(), "of-"+other)
		require.Equal(t, "/?q=of", eval[string](b, `location.pathname + location.search + location.hash`))
		require.Empty(t, eval[string](b, `document.cookie`), "scripts must not be able to read a cookie")
		b.allowErrors("403")
		b.goTo("/admin")
		b.press("Sign out")
		b.waitForText("The issuer has ended your session")
		b.allowErrors("401")
		b.goTo("/")
		b.waitForText("This server wants to know who you are")
	}

	// A sign-in that another program has begun in this browser must not count.
	b := openAt(t, s.home, "/session/oidc?mark=foreign&to=/tasks")
	b.allowErrors("401")
	b.press("Continue as alice")
	b.waitForText("This server wants to know who you are")
	require.Equal(t, "/tasks", eval[string](b, `location.pathname`))
	b.press(signIn)
	b.press("Continue as alice")
	b.waitForText("No task") // a view that calls the server at once
	require.NotContains(t, b.text(), "wants to know who you are")

	b = openAt(t, s.home, "/")
	b.allowErrors("401")
	b.allowErrors("403")
	b.press(signIn)
	b.press("Continue as carol")
	b.waitForText("is in no group that may use this server")
	b.press("Back to the page")
	b.waitForText("This server wants to know who you are")
}

// TestSessionIsRenewed keeps the page open for longer than a token is valid, and then until the issuer ends the
// session.
func TestSessionIsRenewed(t *testing.T) {
	t.Parallel()
	s, issuer := serveIssuer(t, app.AuthOIDC)
	token := issuer.IDToken(t, "alice") // a long-lived token for the test's own call
	issuer.SetLifetime(4 * time.Second)
	b := openAt(t, s.home, "/")
	b.allowErrors("401")
	b.waitForText("Sign in with")
	require.NotContains(t, b.text(), "Token")
	b.press("Sign in with " + issuer.URL[len("http://"):])
	b.press("Continue as alice")
	b.waitForText("No agents yet")
	issuer.SetLifetime(15 * time.Second) // of later tokens, because the page renews its token only once for a call that is refused
	before := issuer.RequestCount("/oauth/token")
	session := `{headers: {'Fleet-Session': JSON.parse(localStorage['fleet-session']).session}}`
	renewed := func() bool { return issuer.RequestCount("/oauth/token") > before }
	waittest.Until(t, "the page does not tell that its token has expired", func() bool {
		return renewed() || eval[bool](b, `fetch('/session', `+session+`).then(r => r.json()).then(s => !s.signed_in)`)
	})
	s.createPapiAs(t, token)
	b.waitForText("papi") // the event stream must still deliver it
	waittest.Until(t, "the page does not tell that it has a new token", renewed)
	require.NotContains(t, b.text(), "Your session has ended")

	issuer.RevokeRefreshTokens()
	b.waitForText("Your session has ended")
	b.press("Sign in with " + issuer.URL[len("http://"):])
	b.press("Continue as alice")
	b.waitForText("papi")
}
