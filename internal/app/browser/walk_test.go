package browser

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

// focusTo presses the Tab key until the focus is on an element whose name begins with name.
func (b *tab) focusTo(name string) {
	b.t.Helper()
	const hasFocus = `name => { const e = document.activeElement
		return [e.getAttribute('aria-label'), e.placeholder, e.closest('label')?.innerText, e.textContent].some(t => t?.trim().startsWith(name)) && e !== document.body && e.id !== 'main' }`
	var visited []string
	for range 1000 { // the element may not have appeared yet
		if eval[bool](b, `(`+hasFocus+`)(`+"`"+name+"`"+`)`) {
			return
		}
		if len(visited) < 60 {
			visited = append(visited, eval[string](b, `document.activeElement.outerHTML.slice(0, 60)`))
		}
		b.pressKeys(kb.Tab)
	}
	require.Fail(b.t, "the focus did not reach "+name, "it was on:\n%s", strings.Join(visited, "\n"))
}

// pressFocused moves the focus to the element with focusTo, and presses Enter.
func (b *tab) pressFocused(name string) {
	b.t.Helper()
	b.focusTo(name)
	b.pressKeys(kb.Enter)
}

// TestKeyboardWalk does what a new user does, with the keyboard alone: it creates the first agent, gives it a task, answers its
// question, reads the result, visits other rooms, and stops and deletes the agent.
func TestKeyboardWalk(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	b := openAt(t, s.home, "/")
	b.allowErrors("404") // the project has no repository, so the task has no changes
	b.waitForText("No agents yet")
	b.pressFocused("Create the first agent")
	b.waitForText("What the agent is for")
	b.focusTo("Name")
	b.pressKeys("papi")
	b.focusTo("What the agent is for")
	b.pressKeys("Try things")
	b.pressFocused("Create agent")
	b.waitForText("Next task")
	b.waitForText("papi")

	b.focusTo("Next task")
	b.pressKeys(`"$FLEET_ASK" question "tabs or spaces?" tabs spaces && echo it is $((40 + 2))`)
	b.pressFocused("Start task")
	b.waitForText("tabs or spaces?")
	b.pressFocused("Attention")
	b.waitForText("papi asks")
	b.pressFocused("spaces")
	b.waitForText("No agent waits for an answer.")

	b.pressFocused("Tasks")
	b.waitForText("completed")
	b.pressFocused(`"$FLEET_ASK"`)
	b.waitForText("it is 42")
	for _, view := range []string{"result", "changes", "checks", "output", "conversation"} {
		b.pressFocused(view)
		require.NoError(t, b.waitUntil(`view => document.activeElement.textContent.trim() === view && document.activeElement.getAttribute('aria-pressed') === 'true'`, view))
	}
	for _, room := range [][2]string{{"Usage", "Tasks by day"}, {"Toolsets", "contracts"}, {"Admin", "The server is ready."}, {"Fleet", "1 agent"}} {
		b.pressFocused(room[0])
		b.waitForText(room[1])
	}
	b.pressFocused("timeline")
	b.waitForText("papi")
	b.pressFocused("table")
	b.pressFocused("papi")
	b.waitForText("What it is for")
	b.pressFocused("Stop")
	b.pressFocused("Yes")
	b.waitForText("stopped")
	b.pressFocused("Delete")
	b.pressFocused("Yes")
	b.waitForText("No agents yet")
}
