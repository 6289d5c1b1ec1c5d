package browser

import (
	"testing"

	"github.com/stretchr/testify/require"

	fleetv1 "fleet/gen/fleet/v1"
)

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
	require.NoError(t, b.waitUntil(`() => window.saved?.then(text => text.trim().split('\n').map(JSON.parse).map(e => e.method).join() === 'StartAgentTask,CreateAgent')`))

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
	require.NoError(t, b.waitUntil(rows, "alice 1 of 1,000,root 0 of 1,000"))
	b.goTo("/admin?principals_from=alice")
	require.NoError(t, b.waitUntil(rows, "root 0 of 1,000"))
	b.press("First principals")
	require.NoError(t, b.waitUntil(rows, "alice 1 of 1,000,root 0 of 1,000"))
	require.Empty(t, eval[string](b, `location.search`))

	alice := s.openSignedIn(t, tokens["alice"])
	alice.goTo("/admin")
	alice.waitForText("Admins also see principals")
	require.NotContains(t, alice.text(), "Running tasks")
}

// TestOwners shows an admin two agents with the same name and different owners. Each agent must have its own address.
func TestOwners(t *testing.T) {
	t.Parallel()
	s, tokens := serveTokens(t, "alice", "bob", "root")
	for _, name := range []string{"alice", "bob"} {
		s.createAgentAs(t, tokens[name], "papi", "Work for "+name)
	}
	b := s.openSignedIn(t, tokens["root"])
	b.waitForText("2 agents")
	for _, name := range []string{"alice", "bob"} {
		require.NoError(t, b.waitUntil(`address => !!document.querySelector('a[href="' + address + '"]')`, "/agents/papi@"+name))
		b.goTo("/agents/papi@" + name)
		b.waitForText("Work for " + name)
		b.fill("Next task", `echo "I am of `+name+`"`)
		b.press("Start task")
		b.waitForText("I am of " + name)
		b.press("Open the task")
		b.waitForText("Retry")
		b.press("papi")
		b.waitForText("Work for " + name)
		b.goTo("/")
		b.waitForText("2 agents")
	}
}
