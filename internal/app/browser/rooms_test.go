package browser

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	fleetv1 "fleet/gen/fleet/v1"
)

// TestRooms opens every room, light and dark, and checks its accessibility: that the focus is visible, and the rules of axe.
func TestRooms(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	b := openAt(t, s.home, "/")
	b.allowErrors("/changes") // a project without a repository has no changes
	b.waitForText("No agents yet")
	s.createAgent(t, "papi")
	s.createAgent(t, "worker")
	b.waitForText("papi")
	b.waitForText("2 agents")
	ended := s.startTask(t, "papi", "seq 1 200; echo failed >&2; exit 3")
	s.waitForEnd(t, ended)
	running := s.startTask(t, "worker", `echo begun; "$FLEET_ASK" question "tabs or spaces?" tabs spaces`)
	b.waitForText("waiting 1")
	_, err := s.api.CreatePool(t.Context(), &fleetv1.CreatePoolRequest{Name: "web", Project: "shell"})
	require.NoError(t, err)
	s.queueTask(t, &fleetv1.QueueTaskRequest{Pool: "web", TaskDescription: "fix the login", Hold: true})

	for _, room := range []struct{ name, path, text string }{
		{"fleet", "/", "2 agents"},
		{"timeline", "/?view=timeline", "15 min"},
		{"attention", "/attention", "tabs or spaces?"},
		{"queue", "/queue", "pool:web"},
		{"tasks", "/tasks", "3 tasks"},
		{"agent", "/agents/worker", "What it is for"},
		{"task", "/tasks/" + ended, "200"},
		{"asking", "/tasks/" + running, "tabs or spaces?"},
		{"changes", "/tasks/" + ended + "?view=changes", "does not work in a repository"},
		{"usage", "/usage", "Usage"},
		{"contracts", "/toolsets/contracts", "No contracts"},
		{"sessions", "/toolsets/sessions", "No sessions yet"},
		{"providers", "/toolsets/providers", "provider"},
		{"subagents", "/toolsets/subagents", "subagent"},
		{"admin", "/admin", "Tokens"},
	} {
		b.goTo(room.path)
		b.waitForText(room.text)
		b.savePictures(room.name, 400, 1280, 2560)
		b.checkRings(room.name)
		b.checkAxe(room.name)
	}
}

// checkAxe checks all rules of axe in the light color scheme, and the contrast also in the dark one. It checks nothing if axe is not
// installed.
func (b *tab) checkAxe(name string) {
	b.t.Helper()
	axe, err := os.ReadFile("../../face/page/node_modules/axe-core/axe.min.js")
	if err != nil {
		return // axe is not installed: run npm ci in internal/face/page
	}
	eval[any](b, string(axe)+"; null")
	for scheme, rules := range map[string]string{"light": `{resultTypes: ['violations']}`, "dark": `{resultTypes: ['violations'], runOnly: ['color-contrast']}`} {
		b.setColorScheme(scheme)
		found := eval[string](b, `axe.run(document, `+rules+`).then(r => JSON.stringify(r.violations.map(v => ({rule: v.id, help: v.help, where: v.nodes.map(n => n.html).slice(0, 3)}))))`)
		var violations []any
		require.NoError(b.t, json.Unmarshal([]byte(found), &violations))
		require.Empty(b.t, violations, "%s, %s", name, scheme)
	}
}

// TestAddresses opens views by their URLs, and navigates back.
func TestAddresses(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.createAgent(t, "papi")
	s.createAgent(t, "worker")
	b := openAt(t, s.home, "/?q=pap")
	b.waitForText("1 of 2 agents")
	b.press("papi")
	b.waitForText("What it is for")
	require.Equal(t, "/agents/papi", eval[string](b, `location.pathname`))
	b.run(chromedp.NavigateBack())
	b.waitForText("1 of 2 agents")
	b.allowErrors("404")
	b.goTo("/nowhere") // this path is not a view, so the API answers
	b.waitForText("there is no GET /nowhere")
	b.goTo("/agents/nobody")
	b.waitForText("nobody")
}

// TestEmptyRooms shows rooms of a new server, objects that do not exist, and a lost connection. Each room must say what is missing,
// and none may scroll sideways.
func TestEmptyRooms(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	b := openTab(t, s.home)
	b.allowErrors("404")
	for _, room := range []struct{ name, path, text string }{
		{"fleet", "/", "No agents yet"},
		{"timeline", "/?view=timeline", "No agents yet"},
		{"attention", "/attention", "No task has failed"},
		{"queue", "/queue", "No schedules"},
		{"tasks", "/tasks", "No tasks yet"},
		{"usage", "/usage", "No tasks in this time"},
		{"sessions", "/toolsets/sessions", "No sessions yet"},
		{"admin", "/admin", "No tokens"},
		{"no-agent", "/agents/nobody", "nobody"},
		{"no-task", "/tasks/nothing", "nothing"},
		{"no-session", "/toolsets/sessions/nothing", "nothing"},
		{"no-room", "/tasks/a/b", "a"},
	} {
		b.goTo(room.path)
		b.waitForText(room.text)
		b.savePictures("empty-"+room.name, 400, 1280)
		b.requireFits(room.name)
	}
	b.allowErrors("ERR_")
	b.allowErrors("Failed to load")
	s.stop()
	b.waitForText("No connection to the server")
	b.savePictures("lost", 400, 1280)
	b.requireFits("lost")
	b.checkRings("lost")
}
