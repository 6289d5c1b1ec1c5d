package browser

import (
	"strconv"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/stretchr/testify/require"
)

// TestTabs opens eight tabs of one browser, each at a running task. All tabs must be live. A browser opens at most six
// connections to a server, so the tabs must share an event stream. They must be live again after the server is restarted.
func TestTabs(t *testing.T) {
	t.Parallel()
	const count = 8
	s := serve(t, useFixedAddresses(t))
	tabs := make([]*tab, count)
	script := `echo begun; while ! [ -e go ]; do sleep 0.1; done; echo "the output"; while ! [ -e end ]; do sleep 0.1; done`
	for i := range tabs {
		name := "agent-" + strconv.Itoa(i)
		s.createAgent(t, name)
		id := s.startTask(t, name, script)
		if i == 0 {
			tabs[i] = openTab(t, s.home)
		} else {
			tabs[i] = tabs[0].newTab()
		}
		tabs[i].goTo("/tasks/" + id)
		tabs[i].waitForText("begun")
	}
	for i := range tabs {
		s.createFile(t, "agent-"+strconv.Itoa(i), "go")
	}
	for _, b := range tabs {
		b.waitForText("the output")
	}
	for _, b := range tabs {
		b.allowErrors("ERR_")
		b.allowErrors("Failed to load")
	}
	s.stop()
	for _, b := range tabs {
		b.waitForText("No connection to the server")
	}
	s.start(t)
	for i := range tabs {
		s.createFile(t, "agent-"+strconv.Itoa(i), "end")
	}
	for _, b := range tabs {
		b.waitUntilGone("No connection to the server")
		b.waitForText("completed")
	}
}

// TestSessionOfTabs signs in and out in one of two tabs, and then signs in as another person in the other. Each time, both tabs must
// follow. At the end, neither may show anything of the first person.
func TestSessionOfTabs(t *testing.T) {
	t.Parallel()
	s, tokens := serveTokens(t, "alice", "bob")
	for name, token := range tokens {
		s.createAgentAs(t, token, "of-"+name, "Try things")
	}
	first := openTab(t, s.home)
	second := first.newTab()
	for _, b := range []*tab{first, second} {
		b.allowErrors("401")
		b.allowErrors("403")
		b.goTo("/")
		b.waitForText("Sign in")
	}
	first.fill("Token", tokens["alice"])
	first.press("Sign in")
	first.waitForText("of-alice")
	second.waitForText("of-alice")
	first.goTo("/admin")
	first.press("Sign out")
	for _, b := range []*tab{first, second} {
		b.waitForText("This server wants to know who you are")
	}
	second.fill("Token", tokens["bob"])
	second.press("Sign in")
	for _, b := range []*tab{first, second} {
		b.waitForText("of-bob")
		require.NotContains(t, b.text(), "of-alice")
	}
	require.Len(t, call(second, network.GetCookies, network.GetCookiesParams{}).Cookies, 1)
}
