package browser

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	fleetv1 "fleet/gen/fleet/v1"
)

// TestPrompt starts tasks with only a prompt: at the top of the fleet, with the key n, and from the palette. The first two tasks create
// agents that are named after the prompts. The third task is for a pool, which creates an agent for it.
func TestPrompt(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	_, err := s.api.CreatePool(t.Context(), &fleetv1.CreatePoolRequest{Name: "web", Project: "shell"})
	require.NoError(t, err)
	b := openAt(t, s.home, "/")
	b.allowErrors("404") // the agents have no repository, so their tasks have no changes
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
	b.fill("What is to be done", "echo with the") // fill replaces the n, which chromedp has typed into the prompt too
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
	b.allowErrors("400")
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
	b.waitForText("3 ended today") // the summary of the day
}
