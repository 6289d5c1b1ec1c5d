package browser

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	fleetv1 "fleet/gen/fleet/v1"
)

// TestPrompt starts tasks with a prompt alone: at the top of the fleet, with the key n, and from the palette. Each task creates an agent that is
// named after the prompt. A task for a pool waits for an agent of the pool.
func TestPrompt(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	_, err := s.api.CreatePool(t.Context(), &fleetv1.CreatePoolRequest{Name: "web", Project: "shell"})
	require.NoError(t, err)
	b := open(t, s.home)
	b.expect("404") // the agents have no repository, so their tasks have no changes
	b.goTo("/")
	b.waitForText("No agents yet")
	b.fill("What is to be done", "echo first prompt")
	b.waitForText("a new agent")
	b.press("Start task")
	b.waitForText("The task was started.")
	b.waitForText("echo-first-prom")
	b.press("Open it")
	b.waitForText("first prompt")
	b.waitForText("completed")

	b.pressKeys("n")
	b.waitForText("For")
	b.fill("What is to be done", "echo with the") // the driver of the browser has also typed the n
	b.pressKeys(" n key")                         // the prompt has the focus, so n is a letter
	b.pressKeys(kb.Enter, chromedp.KeyModifiers(chromedp.ModifierCtrl))
	b.waitForText("with the n key")
	b.waitForText("completed")

	b.pressKeys("k", chromedp.KeyModifiers(chromedp.ModifierCtrl))
	b.waitForText("Find or do")
	b.pressKeys(kb.Enter) // the first action
	b.fill("What is to be done", "echo in the pool")
	b.fill("For", "pool:web")
	b.fill("Budget in US dollars", "2") // programs that do not report costs do not support a budget
	b.press("Start task")
	b.expect("400")
	b.waitForText("does not support max_cost_usd")
	b.fill("Budget in US dollars", "")
	b.press("Start task")
	b.waitForText("echo in the pool")
	b.waitForText("completed")
	r, err := s.api.ListTasks(t.Context(), &fleetv1.ListTasksRequest{})
	require.NoError(t, err)
	require.Len(t, r.GetTasks(), 3)
	require.Contains(t, r.GetTasks()[0].GetAgentName(), "web")
	b.goTo("/")
	b.waitForText("3 ended today") // what has happened, in one line
}
