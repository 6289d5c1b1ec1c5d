package browser

import (
	"testing"

	"github.com/stretchr/testify/require"

	fleetv1 "fleet/gen/fleet/v1"
)

// TestSharing shares an agent with a person, who may only view it, and then stops sharing it. The person's page must add and remove the
// agent without a reload. Then the test shares the agent with a group.
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

// TestSharedQuestion shows the question of an agent to a person who may only view the agent. The person can answer only after the
// owner also lets the person run tasks.
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
