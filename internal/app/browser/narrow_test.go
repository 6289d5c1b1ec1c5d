package browser

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/app"
	"fleet/internal/fleet"
	"fleet/internal/place/local"
)

// requireFits requires that neither the room nor a table in it scrolls sideways, on a small phone and in a usual window.
func (b *tab) requireFits(room string) {
	b.t.Helper()
	for _, width := range []int64{400, 1280} {
		b.run(chromedp.EmulateViewport(width, 900))
		wide := eval[string](b, `[document.documentElement, ...document.querySelectorAll('main .scroll')]
			.filter(e => e.scrollWidth > e.clientWidth).map(e => e.outerHTML.slice(0, 200) + ' needs ' + e.scrollWidth + ' of ' + e.clientWidth).join()`)
		require.Empty(b.t, wide, "%s scrolls sideways at %d px", room, width)
	}
}

// TestNarrow shows every room with names and texts that are long and have no place where a line could break. No room may scroll
// sideways.
func TestNarrow(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("W", fleet.MaxAgentNameLength)
	word := strings.Repeat("unbreakable", 15)
	s := serve(t, func(cfg *app.Config) {
		cfg.Local.Projects = append(cfg.Local.Projects, local.Project{Name: word, Roles: []local.Role{{Name: word}}})
	})
	s.createAgentWith(t, long, word, "", word)
	s.createAgentWith(t, "asker", "shell", "", word)
	failed := s.startTask(t, long, "echo "+word+" | tee /dev/stderr; exit 3")
	s.waitForEnd(t, failed)
	asking := s.startTask(t, "asker", `"$FLEET_ASK" question "`+word+`?" `+word+` no`)
	s.queueTask(t, &fleetv1.QueueTaskRequest{AgentName: long, TaskDescription: word, Hold: true})
	_, err := s.api.CreatePool(t.Context(), &fleetv1.CreatePoolRequest{Name: long[:15], Project: word})
	require.NoError(t, err)
	_, err = s.api.CreateSchedule(t.Context(), &fleetv1.CreateScheduleRequest{
		Name: strings.Repeat("W", 63), Cron: "0 3 * * *",
		Task: &fleetv1.QueueTaskRequest{AgentName: long, TaskDescription: word},
	})
	require.NoError(t, err)
	b := openTab(t, s.home)
	b.allowErrors("/changes") // a project without a repository has no changes
	for _, room := range []struct{ name, path, text string }{
		{"fleet", "/", "waiting 1"},
		{"timeline", "/?view=timeline", "15 min"},
		{"attention", "/attention", word + "?"},
		{"queue", "/queue", "local has put it on hold"},
		{"tasks", "/tasks", "3 tasks"},
		{"agent", "/agents/" + long, "What it is for"},
		{"asker", "/agents/asker", word + "?"},
		{"task", "/tasks/" + failed, "Exit code"},
		{"asking", "/tasks/" + asking, word + "?"},
		{"usage", "/usage", "3 tasks"},
		{"usage-projects", "/usage?by=projects", word},
		{"contracts", "/toolsets/contracts", "No contracts"},
		{"sessions", "/toolsets/sessions", "No sessions yet"},
		{"providers", "/toolsets/providers", "provider"},
		{"subagents", "/toolsets/subagents", "No subagents"},
		{"admin", "/admin", "2 of 1,000"},
	} {
		b.goTo(room.path)
		b.waitForText(room.text)
		b.savePictures("long-"+room.name, 400, 1280, 2560)
		b.requireFits(room.name)
	}
}

// TestNarrowSignIn enters a wrong token. The view with the error must not scroll sideways.
func TestNarrowSignIn(t *testing.T) {
	t.Parallel()
	s, _ := serveTokens(t, "alice")
	b := openAt(t, s.home, "/")
	b.allowErrors("401")
	b.waitForText("Sign in")
	b.fill("Token", strings.Repeat("wrong", 40))
	b.press("Sign in")
	b.waitForText("token")
	b.savePictures("sign-in", 400, 1280)
	b.requireFits("sign in")
}
