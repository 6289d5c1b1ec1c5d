package browser

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/app"
	"fleet/internal/place/local"
)

// TestReview reads the work of a task, comments on a line, and requests changes. Then it approves and lands the work of another task.
// It chooses the line with the mouse, and again with the keyboard.
func TestReview(t *testing.T) {
	t.Parallel()
	repository := exampleRepository(t)
	s := serve(t, func(cfg *app.Config) {
		cfg.Local.Projects = []local.Project{{Name: "shop", Repository: repository}}
	})
	s.createAgentWith(t, "papi", "shop", "", "Look after the basket")
	commit := ` && git add -A && git -c user.name=papi -c user.email=papi@example.com commit -qm change`
	id := s.startTask(t, "papi", `sed -i 's/total += p.Price/total += p.Price * 2/' basket.go && mkdir -p docs && printf 'one\ntwo\n' > docs/new.txt`+commit)
	s.waitForEnd(t, id)
	b := openAt(t, s.home, "/tasks/"+id)
	b.allowErrors("/changes?since=work") // the request fails for the task of the review until it has changes
	b.press("changes")
	b.waitForText("2 files")
	b.waitForText("docs/")
	require.NoError(t, b.waitUntil(`() => [...document.querySelectorAll('.insert .changed')].map(e => e.textContent).join() === ' * 2'`))
	// A click gives the focus first to the region, and only then to the field for the comment.
	// The line moves while what is above it is loading, so wait until it has stayed in its place for a while.
	at := eval[[]float64](b, `(async () => {
		const place = () => { const r = document.querySelector('.insert .n:not(:empty)').getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2] }
		let at = place()
		for (let same = 0; same < 20; same++) {
			await new Promise(done => setTimeout(done, 20))
			const now = place()
			if (now.join() !== at.join()) same = 0
			at = now
		}
		return at
	})()`)
	b.run(chromedp.MouseClickXY(at[0], at[1]))
	require.NoError(t, b.waitUntil(`() => document.activeElement.tagName === 'TEXTAREA'`))
	b.pressKeys(kb.Escape)
	eval[bool](b, `document.activeElement.blur(), true`)
	b.pressKeys("n")
	b.pressKeys("c")
	require.NoError(t, b.waitUntil(`() => document.activeElement.tagName === 'TEXTAREA'`))
	b.fill(eval[string](b, `document.activeElement.ariaLabel`), "once is enough")
	b.pressKeys(kb.Enter, chromedp.KeyModifiers(chromedp.ModifierCtrl))
	b.waitForText("Request changes (1 comment)")
	b.goTo("/tasks/" + id + "?view=changes") // the draft is kept
	b.waitForText("once is enough")
	eval[bool](b, `document.querySelector('.viewed input').click(), true`)
	require.NoError(t, b.waitUntil(`() => !document.querySelector('[data-path="basket.go"] details').open`))
	eval[bool](b, `document.querySelector('.viewed input').click(), true`)
	b.waitForText("once is enough")
	b.savePictures("review", 400, 1280, 2560)
	b.press("Side by side")
	require.NoError(t, b.waitUntil(`() => !!document.querySelector('.split .insert')`))
	b.savePictures("split", 1280, 2560)
	b.press("Side by side")
	b.fill("What you say about the whole work", "Not yet.")
	b.press("Request changes (1 comment)")
	require.NoError(t, b.waitUntil(`id => !location.pathname.endsWith(id)`, id))
	s.waitForEnd(t, strings.TrimPrefix(eval[string](b, `location.pathname`), "/tasks/")) // the text of the review is a comment for the shell

	next := s.startTask(t, "papi", `printf 'three\n' > more.txt`+commit)
	s.waitForEnd(t, next)
	b.goTo("/tasks/" + next + "?view=changes")
	b.waitForText("1 file")
	b.press("Approve")
	b.waitForText("approved")
	b.press("Land …")
	b.waitForText("Git can combine it")
	b.press("Land it")
	b.waitForText("landed")
	log, err := exec.CommandContext(t.Context(), "git", "-C", repository, "log", "--oneline", "main").CombinedOutput()
	require.NoError(t, err, "%s", log)
	require.Greater(t, strings.Count(string(log), "\n"), 1, "%s", log)
	r, err := s.api.ListReviews(t.Context(), &fleetv1.ListReviewsRequest{TaskId: next})
	require.NoError(t, err)
	require.Equal(t, fleetv1.Landing_landed, r.GetTasks()[0].GetLanding().GetState())
}
