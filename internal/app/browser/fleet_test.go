package browser

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	fleetv1 "fleet/gen/fleet/v1"
)

// TestFleetRows shows the rows of the fleet: the newest step of each agent, agents that need people first, groups, and a saved view. It
// also dismisses a failed task in the room Attention.
func TestFleetRows(t *testing.T) {
	t.Parallel()
	var tr transcript
	tr.toolCall("", "c1", "Bash", object{"command": "go vet ./..."})
	tr.wait()
	tr.toolCall("", "c2", "Bash", object{"command": "go test ./..."})
	tr.wait()
	s := serveTranscript(t, &tr)
	for _, name := range []string{"asker", "broken", "able"} {
		s.createAgent(t, name)
	}
	s.waitForEnd(t, s.startTask(t, "broken", "echo the disk is full >&2; exit 3"))
	b := openAt(t, s.home, "/")
	b.waitForText("4 agents")
	s.startTask(t, "claude", "Look after it")
	b.waitForText("go vet")
	s.createFile(t, "claude", "go")
	b.waitForText("go test") // the newest step
	s.startTask(t, "asker", `"$FLEET_ASK" question "tabs or spaces?" tabs spaces`)
	b.waitForText("waiting 1")
	b.waitForText("failed 1")
	b.waitForText("the disk is full")
	waitForNames := func(want string) {
		t.Helper()
		const rows = `want => [...document.querySelectorAll('.table .name a, .table .group')].map(e => e.innerText.trim()).join() === want`
		require.NoError(t, b.waitUntil(rows, want), "%s", eval[string](b, `[...document.querySelectorAll('.table .name a, .table .group')].map(e => e.innerText.trim()).join()`))
	}
	waitForNames("asker,broken,claude,able")
	b.fill("Group by", "project")
	waitForNames("shell 3,asker,broken,able,transcript 1,claude")
	b.press("Save this view")
	b.fill("Name of the view", "by project")
	b.press("Save")
	b.goTo("/")
	waitForNames("asker,broken,claude,able")
	b.press("by project")
	waitForNames("shell 3,asker,broken,able,transcript 1,claude")
	b.savePictures("groups", 400, 1280, 2560)

	b.goTo("/attention")
	b.waitForText("the disk is full")
	b.press("Dismiss")
	b.waitForText("No task has failed")
}

// TestBulk makes a plan that stops two of three agents, and cancels it. Then it labels the two agents with a plan.
func TestBulk(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	for _, name := range []string{"one", "two", "three"} {
		s.createAgent(t, name)
	}
	b := openAt(t, s.home, "/")
	b.waitForText("3 agents")
	choose := func(name string) {
		t.Helper()
		require.NoError(t, b.waitUntil(`name => { const box = document.querySelector('[aria-label="Select ' + name + '"]'); box?.click(); return !!box }`, name))
	}
	choose("one")
	choose("two")
	b.waitForText("2 agents selected")
	b.press("Stop")
	b.waitForText("Do it")
	require.Equal(t, 2, eval[int](b, `document.querySelectorAll('dialog li').length`))
	b.press("Cancel")
	b.press("Label")
	b.fill("Labels to set", "team=web old")
	b.press("Show what will happen")
	b.press("Do it")
	b.press("Done")
	b.waitUntilGone("2 agents selected")
	r, err := s.api.ListAgents(t.Context(), &fleetv1.ListAgentsRequest{Selector: "team=web"})
	require.NoError(t, err)
	require.Len(t, r.GetAgents(), 2)
}

// TestBulkConfirmation closes the dialog while its plan runs, and makes a plan that deletes the agents. The plan that was not confirmed
// must not run.
func TestBulkConfirmation(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.createAgent(t, "one")
	b := openAt(t, s.home, "/")
	b.waitForText("1 agent")
	// The first answer says that the plan is not finished, and waits until the test sets window.go.
	b.intercept(`async (method, path, send) => {
		if (!/^\/v1\/bulk\/.*\/run$/.test(path)) return send()
		window.runs = [...window.runs ?? [], path]
		await new Promise(done => { window.go = done })
		return Response.json({message: 'It goes on.', unfinished: true, items: []})
	}`)
	require.NoError(t, b.waitUntil(`() => { const box = document.querySelector('[aria-label="Select one"]'); box?.click(); return !!box }`))
	b.press("Stop")
	b.press("Do it")
	require.NoError(t, b.waitUntil(`() => !!window.go`))
	b.press("Cancel")
	b.press("Delete")
	b.waitForText("Do it")
	eval[bool](b, `window.go(), new Promise(done => setTimeout(() => done(true), 500))`)
	require.Equal(t, 1, eval[int](b, `window.runs.length`), "a plan ran that was not confirmed")
	require.NotContains(t, b.text(), "It goes on.")
}

// TestOlderTasks reads the older tasks of an agent while it begins new ones, and after one was deleted.
func TestOlderTasks(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.createAgent(t, "papi")
	ids := make([]string, 12)
	for i := range ids {
		ids[i] = s.startTask(t, "papi", fmt.Sprintf("true task %02d", i))
		s.waitForEnd(t, ids[i])
	}
	b := openAt(t, s.home, "/agents/papi")
	b.waitForText("true task 02")
	require.NotContains(t, b.text(), "true task 01")
	last := s.startTask(t, "papi", "true task 12")
	s.waitForEnd(t, last)
	b.waitForText("true task 12")
	eval[bool](b, `(button => (button.click(), button.click(), true))([...document.querySelectorAll('button')].find(e => e.textContent === 'Older tasks'))`)
	b.waitForText("true task 00")
	for i := range 13 {
		require.Equal(t, 1, strings.Count(b.text(), fmt.Sprintf("true task %02d", i)))
	}
	_, err := s.api.DeleteTask(t.Context(), &fleetv1.DeleteTaskRequest{TaskId: ids[1]})
	require.NoError(t, err)
	b.waitUntilGone("true task 01")
}

// TestSameOptions shows and answers a question with two equal options.
func TestSameOptions(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.createAgent(t, "papi")
	id := s.startTask(t, "papi", `"$FLEET_ASK" question "tabs or spaces?" tabs tabs`)
	b := openAt(t, s.home, "/attention")
	b.waitForText("tabs or spaces?")
	b.press("tabs")
	s.waitForEnd(t, id)
}

// TestFailedRead creates an agent while the server cannot answer. The page must read the agent later, although no other event tells it to.
func TestFailedRead(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	b := openAt(t, s.home, "/")
	b.waitForText("No agents yet")
	b.intercept(`(method, path, send) => {
		if (!path.startsWith('/v1/agents/') || window.failed) return send()
		window.failed = true
		return Promise.resolve(Response.json({error: 'UNAVAILABLE', message: 'later'}, {status: 503}))
	}`)
	s.createAgent(t, "papi")
	require.NoError(t, b.waitUntil(`() => window.failed`))
	b.waitForText("papi")
}

// TestLostAnswers repeats calls whose answers were lost. The server must do them once, and must accept another call.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.createAgent(t, "papi")
	id := s.startTask(t, "papi", "true")
	s.waitForEnd(t, id)
	waitForTasks := func(want int) {
		t.Helper()
		r, err := s.api.ListTasks(t.Context(), &fleetv1.ListTasksRequest{})
		require.NoError(t, err)
		require.Len(t, r.GetTasks(), want)
		for _, task := range r.GetTasks() {
			s.waitForEnd(t, task.GetId())
		}
	}
	b := openAt(t, s.home, "/tasks/"+id)
	b.intercept(`async (method, path, send) => {
		const answer = await send()
		if (method !== 'POST' || window.lost) return answer
		window.lost = true
		throw new TypeError('lost')
	}`)
	b.press("Retry")
	b.waitForText("cannot be reached")
	b.press("Retry")
	require.NoError(t, b.waitUntil(`id => !location.pathname.endsWith(id)`, id))
	waitForTasks(2)

	b.waitForText("completed")
	eval[bool](b, `window.lost = false, true`)
	b.fill("Next task", "true one")
	b.press("Start task")
	b.waitForText("cannot be reached")
	waitForTasks(3)
	b.fill("Next task", "true two")
	b.press("Start task")
	b.waitForText("true two")
	waitForTasks(4)
}
