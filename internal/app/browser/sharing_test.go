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
	s.papiOf(t, tokens["alice"])
	alice, bob := s.signedIn(t, tokens["alice"]), s.signedIn(t, tokens["bob"])
	bob.goTo("/")
	bob.sees("No agents yet")
	alice.goTo("/agents/papi")
	alice.sees("Nobody but alice and admins sees this agent.")
	alice.fill("Name of the person", "bob")
	alice.press("Share")
	alice.press("Unshare with bob")
	alice.sees("Hide it from bob?")
	require.Equal(t, "No", eval[string](alice, `document.activeElement.textContent`))
	bob.sees("shared by alice")
	bob.press("papi")
	bob.sees("alice has shared this agent with you to view it.")
	require.NotContains(t, bob.text(), "Next task")
	require.NotContains(t, bob.text(), "Delete")
	bob.press("Fleet")
	bob.sees("1 agent")
	alice.press("Yes")
	alice.sees("Nobody but alice and admins sees this agent.")
	bob.sees("No agents yet")

	alice.fill("Share with a person or a group", "group")
	alice.fill("Name of the group", "oidc:ops")
	alice.fill("What they may do", "run")
	alice.press("Share")
	alice.sees("group oidc:ops")
}

// TestSharedQuestion offers no answer to a person who may only view the agent, until the person may also run tasks on it.
func TestSharedQuestion(t *testing.T) {
	t.Parallel()
	s, tokens := serveTokens(t, "alice", "bob")
	ctx := s.papiOf(t, tokens["alice"])
	share := func(access fleetv1.Share_Access) {
		_, err := s.api.ShareAgent(ctx, &fleetv1.ShareAgentRequest{AgentName: "papi", Person: "bob", Access: access})
		require.NoError(t, err)
	}
	share(fleetv1.Share_view)
	s.taskOf(ctx, t, "papi", `"$FLEET_ASK" question "tabs or spaces?" tabs spaces`)
	bob := s.signedIn(t, tokens["bob"])
	bob.goTo("/attention")
	bob.sees("tabs or spaces?")
	bob.sees("so you cannot answer")
	require.False(t, eval[bool](bob, `[...document.querySelectorAll('main button')].some(b => b.textContent.trim() === 'spaces')`))
	share(fleetv1.Share_run)
	bob.misses("so you cannot answer")
	bob.press("spaces")
	bob.sees("No agent waits for an answer.")
}

// TestAudit reads, filters and exports the audit log as an admin. Other people must not see the log.
func TestAudit(t *testing.T) {
	t.Parallel()
	s, tokens := serveTokens(t, "alice", "root")
	ctx := s.papiOf(t, tokens["alice"])
	_, err := s.api.StartAgentTask(ctx, &fleetv1.StartAgentTaskRequest{AgentName: "papi", TaskDescription: "true"})
	require.NoError(t, err)
	b := s.signedIn(t, tokens["root"])
	b.goTo("/admin?method=CreateAgent")
	b.sees("✓ ok")
	require.Contains(t, b.text(), "CreateAgent")
	require.NotContains(t, b.text(), "StartAgentTask")
	b.fill("Method in the audit log", "")
	b.sees("StartAgentTask")
	b.fill("Principal in the audit log", "nobody")
	b.sees("No call matches")
	require.Equal(t, "?principal=nobody", eval[string](b, `location.search`))
	b.fill("Principal in the audit log", "alice")
	b.sees("StartAgentTask")
	eval[bool](b, `URL.createObjectURL = blob => { window.saved = blob.text(); return '#' }, true`)
	b.press("Export")
	b.sees("2 lines exported")
	require.NoError(t, b.until(`() => window.saved?.then(text => text.trim().split('\n').map(JSON.parse).map(e => e.method).join() === 'StartAgentTask,CreateAgent')`))

	alice := s.signedIn(t, tokens["alice"])
	alice.goTo("/admin")
	alice.sees("Admins also see principals, tokens and the audit log here.")
}

// TestPrincipals shows an admin how many agents and tasks each principal has and may have. Other people must not see
// this table.
func TestPrincipals(t *testing.T) {
	t.Parallel()
	s, tokens := serveTokens(t, "alice", "root")
	s.papiOf(t, tokens["alice"])
	b := s.signedIn(t, tokens["root"])
	b.goTo("/admin")
	b.sees("Running tasks")
	const rows = `want => [...document.querySelectorAll('table[aria-label=Principals] tbody tr')].map(r => r.cells[0].innerText + ' ' + r.cells[1].innerText.trim()).join() === want`
	require.NoError(t, b.until(rows, "alice 1 of 1,000,root 0 of 1,000"))
	b.goTo("/admin?principals_from=alice")
	require.NoError(t, b.until(rows, "root 0 of 1,000"))
	b.press("First principals")
	require.NoError(t, b.until(rows, "alice 1 of 1,000,root 0 of 1,000"))
	require.Empty(t, eval[string](b, `location.search`))

	alice := s.signedIn(t, tokens["alice"])
	alice.goTo("/admin")
	alice.sees("Admins also see principals")
	require.NotContains(t, alice.text(), "Running tasks")
}

// signedIn opens a tab that is signed in with the token.
func (s *server) signedIn(t *testing.T, token string) *tab {
	t.Helper()
	b := open(t, s.home)
	b.expect("404") // the page may be reading the newest task of an agent that is not shared any more
	b.expect("401")
	b.goTo("/")
	b.fill("Token", token)
	b.press("Sign in")
	b.sees("Find or do")
	b.misses("This server wants to know who you are")
	return b
}
