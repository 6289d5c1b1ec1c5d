package browser

import (
	"context"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/metadata"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/app"
	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/waittest"
)

// delegationServer is a server whose agents live at a fake place and may delegate tasks.
type delegationServer struct {
	*server
	place *fake.Place

	mu     sync.Mutex
	tokens map[string]string // of each agent's last run, by the agent's name
}

func serveDelegation(t *testing.T) *delegationServer {
	t.Helper()
	d := &delegationServer{tokens: map[string]string{}}
	d.place = fake.New(fake.Config{
		Traits: fleet.Traits{ReachesFleet: true, SupportsOutput: true},
		Grants: map[string]*fleet.Grant{"manager": {}, "coder": {}},
		Before: func(_ context.Context, c fake.Call) error {
			if c.Method == fake.Dispatch && c.FleetEndpoint != nil {
				d.mu.Lock()
				d.tokens[c.Agent.Name] = c.FleetEndpoint.Token
				d.mu.Unlock()
			}
			return nil
		},
	})
	d.server = &server{places: []fleet.Place{d.place}}
	d.configureAndStart(t, func(cfg *app.Config) { cfg.Places = []string{"fake"} })
	return d
}

// agentContext waits until the agent of the task has a run, and returns a context for calls of the agent.
func (d *delegationServer) agentContext(t *testing.T, id string) context.Context {
	t.Helper()
	var token string
	waittest.Until(t, "the API does not tell that a run has a token", func() bool {
		r, err := d.api.ShowTask(t.Context(), &fleetv1.ShowTaskRequest{TaskId: id})
		require.NoError(t, err)
		d.mu.Lock()
		defer d.mu.Unlock()
		token = d.tokens[r.GetTask().GetAgentName()]
		return token != ""
	})
	return metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+token)
}

// delegate queues a task for a new agent, in the name of the agent that works on the task parent. It returns the id of the new task.
func (d *delegationServer) delegate(t *testing.T, parent, script string) string {
	t.Helper()
	r, err := d.api.QueueTask(d.agentContext(t, parent), &fleetv1.QueueTaskRequest{Project: "Setup", Role: "coder", NewAgent: true, TaskDescription: script})
	require.NoError(t, err)
	return r.GetTask().GetId()
}

// waitForNode waits until the tree has a node at the depth that begins with the text.
func (b *tab) waitForNode(depth int, text string) {
	b.t.Helper()
	err := b.waitUntil(`(depth, text) => [...document.querySelectorAll('ul.tree li')].some(li => {
		let up = 0
		for (let e = li.parentElement; !e.classList.contains('tree'); e = e.parentElement) if (e.tagName === 'UL') up++
		return up === depth && li.firstElementChild.innerText.replace(/\s+/g, ' ').trim().startsWith(text)
	})`, depth, text)
	require.NoError(b.t, err, "the tree does not have the node %q at depth %d", text, depth)
}

// TestTree lets agents delegate tasks, and follows the tree of the tasks: how it grows, its costs, how a task waits for results, and how
// a task is stopped with everything below it.
func TestTree(t *testing.T) {
	t.Parallel()
	d := serveDelegation(t)
	for _, gate := range []string{"turn", "notes", "build", "links", "never"} {
		t.Cleanup(func() { d.place.Release(gate) })
	}
	_, err := d.api.CreateAgent(t.Context(), &fleetv1.CreateAgentRequest{Name: "boss", Project: "Setup", Role: "manager", Spec: "s"})
	require.NoError(t, err)
	started, err := d.api.StartAgentTask(t.Context(), &fleetv1.StartAgentTaskRequest{
		AgentName: "boss", TaskDescription: "echo " + hostileText + "\ncost 0.25 1\nwait turn\ndone planned", MaxCostUsd: new(9.0),
	})
	require.NoError(t, err)
	root := started.GetTask().GetId()
	b := openAt(t, d.home, "/tasks/"+root)
	b.allowErrors("/changes") // the place keeps no changes
	b.waitForText("running")
	require.NotContains(t, b.text(), "tree")

	notes := d.delegate(t, root, "echo write the notes\nwait notes\ndone")
	build := d.delegate(t, root, "echo build it\ncost 0.5 1\nwait build\ndone built")
	d.delegate(t, notes, "echo check the links\ncost 0.125 1\nwait links\ndone checked")
	b.press("2 delegated")
	b.waitForNode(0, "▶ running echo "+hostileText+" boss own cost $0.00 with all below $0.00 limit $9.00")
	b.waitForNode(1, "▶ running echo write the notes")
	b.waitForNode(1, "▶ running echo build it")
	b.waitForNode(2, "▶ running echo check the links")
	require.False(t, eval[bool](b, `'owned' in window`))

	d.place.Release("links")
	b.waitForNode(2, "✓ completed checked")
	d.place.Release("turn")
	b.waitForNode(0, "◷ waits for results echo "+hostileText+" boss own cost $0.25 with all below $0.38 limit $9.00")
	b.waitForText("waits for 2 delegated tasks")
	fix := d.delegate(t, notes, "echo fix a link\nwait never\ndone")
	b.waitForNode(2, "▶ running echo fix a link")
	b.waitForText("5 tasks, of which 4 have not ended, $0.38 together")
	b.savePictures("tree", 400, 1280, 2560)
	b.requireFits("tree")
	b.checkRings("tree")
	b.checkAxe("tree")

	b.checkRoomsOfTree()
	b.goTo("/tasks/" + fix)
	b.waitForText("Delegated by another task.")
	b.press("tree")
	b.press("Stop echo write the notes")
	b.waitForText("Stop the task and everything below it?")
	b.run(chromedp.EmulateViewport(400, 900))
	b.requireFits("the question")
	b.press("Yes")
	b.waitForNode(1, "■ stopped echo write the notes")
	b.waitForNode(2, "■ stopped echo fix a link")
	b.waitForNode(2, "✓ completed checked")
	b.waitForNode(1, "▶ running echo build it")
	d.place.Release("build")
	d.waitForEnd(t, build)
	d.waitForEnd(t, root)
	b.waitForNode(0, "✓ completed")
	b.waitForText("5 tasks, all ended, $1.13 together")
	require.False(t, eval[bool](b, `!!document.querySelector('ul.tree button')`))
}

// checkRoomsOfTree checks what the fleet, the queue and the list of tasks show of the tree in TestTree.
func (b *tab) checkRoomsOfTree() {
	b.t.Helper()
	b.goTo("/?status=busy")
	b.waitForText("delegating")
	b.waitForText("waits for 2 delegated tasks")
	require.NoError(b.t, b.waitUntil(`() => [...document.querySelectorAll('[role=cell].task')].filter(cell => cell.innerText.includes('2 delegated')).length === 2`))
	b.savePictures("tree-fleet", 400, 1280, 2560)
	b.goTo("/queue")
	b.waitForRows("Queue", "1 echo "+hostileText+" boss delegated: its turn is over, and it waits for 2 delegated tasks")
	b.savePictures("tree-queue", 400, 1280, 2560)
	b.requireFits("queue")
	b.checkAxe("queue")
	b.press("Stop echo " + hostileText)
	b.waitForText("Stop the task and everything below it?")
	b.press("No")
	b.goTo("/tasks")
	require.NoError(b.t, b.waitUntil(`() => [...document.querySelectorAll('table a[href$="?view=tree"]')].map(a => a.innerText.trim()).join() === '2 delegated,2 delegated'`))
	b.savePictures("tree-tasks", 400, 1280, 2560)
	b.requireFits("tasks")
	b.checkAxe("tasks")
}
