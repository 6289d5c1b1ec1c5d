package browser

import (
	"testing"

	"github.com/stretchr/testify/require"

	fleetv1 "fleet/gen/fleet/v1"
)

// TestSharing shares an agent with a person, who may only view it, and then stops sharing it. The person's page must
// remove the agent because of the event alone. A request for the agent would be an error of the page.
func TestSharing(t *testing.T) {
	t.Parallel()
	s, tokens := serveTokens(t, "alice", "bob")
	s.createPapiAs(t, tokens["alice"])
	alice, bob := s.openSignedIn(t, tokens["alice"]), s.openSignedIn(t, tokens["bob"])
	bob.goTo("/")
	bob.waitForText("No agents yet")
	alice.goTo("/agents/papi")
	alice.waitForText("Nobody but alice and admins sees this agent.")
	alice.fill("Name of the person", "bob")
	alice.press("Share")
	alice.press("Unshare with bob")
	alice.waitForText("Hide it from bob?")
	require.Equal(t, "No", eval[string](alice, `document.activeElement.textContent`))
	bob.waitForText("shared by alice")
	bob.press("papi")
	bob.waitForText("alice has shared this agent with you to view it.")
	require.NotContains(t, bob.text(), "Next task")
	require.NotContains(t, bob.text(), "Delete")
	bob.press("Fleet")
	bob.waitForText("1 agent")
	alice.press("Yes")
	alice.waitForText("Nobody but alice and admins sees this agent.")
	bob.waitForText("No agents yet")

	alice.fill("Share with a person or a group", "group")
	alice.fill("Name of the group", "oidc:ops")
	alice.fill("What they may do", "run")
	alice.press("Share")
	alice.waitForText("group oidc:ops")
}

// TestSharedQuestion offers no answer to a person who may only view the agent, until the person may also run tasks on it.
func TestSharedQuestion(t *testing.T) {
	t.Parallel()
	s, tokens := serveTokens(t, "alice", "bob")
	ctx := s.createPapiAs(t, tokens["alice"])
	share := func(access fleetv1.Share_Access) {
		_, err := s.api.ShareAgent(ctx, &fleetv1.ShareAgentRequest{AgentName: "papi", Person: "bob", Access: access})
		require.NoError(t, err)
	}
	share(fleetv1.Share_view)
	s.startTaskAs(ctx, t, "papi", `"$FLEET_ASK" question "tabs or spaces?" tabs spaces`)
	bob := s.openSignedIn(t, tokens["bob"])
	bob.goTo("/attention")
	bob.waitForText("tabs or spaces?")
	bob.waitForText("so you cannot answer")
	require.False(t, eval[bool](bob, `[...document.querySelectorAll('main button')].some(b => b.textContent.trim() === 'spaces')`))
	share(fleetv1.Share_run)
	bob.waitUntilGone("so you cannot answer")
	bob.press("spaces")
	bob.waitForText("No agent waits for an answer.")
}

// TestAudit reads, filters and exports the audit log as an admin. Other people must not see the log.
func TestAudit(t *testing.T) {
	t.Parallel()
	s, tokens := serveTokens(t, "alice", "root")
	ctx := s.createPapiAs(t, tokens["alice"])
	_, err := s.api.StartAgentTask(ctx, &fleetv1.StartAgentTaskRequest{AgentName: "papi", TaskDescription: "true"})
	require.NoError(t, err)
	b := s.openSignedIn(t, tokens["root"])
	b.goTo("/admin?method=CreateAgent")
	b.waitForText("✓ ok")
	require.Contains(t, b.text(), "CreateAgent")
	require.NotContains(t, b.text(), "StartAgentTask")
	b.fill("Method in the audit log", "")
	b.waitForText("StartAgentTask")
	b.fill("Principal in the audit log", "nobody")
	b.waitForText("No call matches")
	require.Equal(t, "?principal=nobody", eval[string](b, `location.search`))
	b.fill("Principal in the audit log", "alice")
	b.waitForText("StartAgentTask")
	eval[bool](b, `URL.createObjectURL = blob => { window.saved = blob.text(); return '#' }, true`)
	b.press("Export")
	b.waitForText("2 lines exported")
	require.NoError(t, b.until(`() => window.saved?.then(text => text.trim().split('\n').map(JSON.parse).map(e => e.method).join() === 'StartAgentTask,CreateAgent')`))

	alice := s.openSignedIn(t, tokens["alice"])
	alice.goTo("/admin")
	alice.waitForText("Admins also see principals, tokens and the audit log here.")
}

// TestPrincipals shows an admin how many agents and tasks each principal has and may have. Other people must not see
// this table.
func TestPrincipals(t *testing.T) {
	t.Parallel()
	s, tokens := serveTokens(t, "alice", "root")
	s.createPapiAs(t, tokens["alice"])
	b := s.openSignedIn(t, tokens["root"])
	b.goTo("/admin")
	b.waitForText("Running tasks")
	const rows = `want => [...document.querySelectorAll('table[aria-label=Principals] tbody tr')].map(r => r.cells[0].innerText + ' ' + r.cells[1].innerText.trim()).join() === want`
	require.NoError(t, b.until(rows, "alice 1 of 1,000,root 0 of 1,000"))
	b.goTo("/admin?principals_from=alice")
	require.NoError(t, b.until(rows, "root 0 of 1,000"))
	b.press("First principals")
	require.NoError(t, b.until(rows, "alice 1 of 1,000,root 0 of 1,000"))
	require.Empty(t, eval[string](b, `location.search`))

	alice := s.openSignedIn(t, tokens["alice"])
	alice.goTo("/admin")
	alice.waitForText("Admins also see principals")
	require.NotContains(t, alice.text(), "Running tasks")
}

// openSignedIn opens a tab that is signed in with the token.
func (s *server) openSignedIn(t *testing.T, token string) *tab {
	t.Helper()
	b := open(t, s.home)
	b.expect("404") // the page may be reading the newest task of an agent that is not shared any more
	b.expect("401")
	b.goTo("/")
	b.fill("Token", token)
	b.press("Sign in")
	b.waitForText("Find or do")
	b.waitUntilGone("This server wants to know who you are")
	return b
}
