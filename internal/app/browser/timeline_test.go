package browser

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	fleetv1 "fleet/gen/fleet/v1"
)

// TestTimeline checks that the timeline shows the states that an agent had before the page was opened, and a later change.
func TestTimeline(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	// setClock makes the server's clock late by the minutes.
	setClock := func(minutes int) { s.clockDelay.Store(int64(time.Duration(minutes) * time.Minute)) }
	setClock(50)
	s.createAgent(t, "papi")
	s.createAgent(t, "quiet")
	setClock(45)
	b := openAt(t, s.home, "/attention")
	id := s.startTask(t, "papi", `while ! [ -e ask ]; do sleep 0.1; done; "$FLEET_ASK" question "tabs or spaces?" tabs spaces; while ! [ -e end ]; do sleep 0.1; done`)
	setClock(40)
	s.createFile(t, "papi", "ask")
	b.waitForText("tabs or spaces?")
	setClock(30)
	b.press("spaces")
	b.waitForText("No agent waits for an answer.")
	setClock(20)
	s.createFile(t, "papi", "end")
	s.waitForEnd(t, id)
	setClock(10)
	_, err := s.api.StopAgent(t.Context(), &fleetv1.StopAgentRequest{AgentName: "papi"})
	require.NoError(t, err)
	b.goTo("/?view=timeline")
	waitForKinds := func(agent, kinds string) { // the newest first; the oldest may be "offline", from the time when the agent was created
		t.Helper()
		require.NoError(t, b.waitUntil(`(agent, kinds) => {
			const lane = [...document.querySelectorAll('.lanes [role=listitem]')].find(l => l.querySelector('a')?.textContent === agent)
			const words = lane?.querySelector('.bars > .sr')?.textContent ?? ''
			return words.split(', ').map(w => w.split(' ')[0]).join(' ').startsWith(kinds)
		}`, agent, kinds))
	}
	waitForKinds("papi", "offline idle working asking working")
	waitForKinds("quiet", "idle")
	setClock(0)
	_, err = s.api.StartAgent(t.Context(), &fleetv1.StartAgentRequest{AgentName: "papi"})
	require.NoError(t, err)
	waitForKinds("papi", "idle offline idle working asking")
}
