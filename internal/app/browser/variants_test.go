package browser

import (
	"testing"

	"github.com/stretchr/testify/require"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/app"
	"fleet/internal/place/local"
)

// TestVariants gives one prompt to two agents, compares their work, keeps the work of one, and abandons the work of the other.
func TestVariants(t *testing.T) {
	t.Parallel()
	s := serve(t, func(cfg *app.Config) {
		cfg.Local.Projects = []local.Project{{Name: "shop", Repository: exampleRepository(t)}}
	})
	b := openAt(t, s.home, "/")
	b.fill("What is to be done", `sed -i 's/total += p.Price/total += p.Price * 2/' basket.go`)
	b.waitForText("a new agent")
	b.fill("Tries", "2")
	b.press("Start 2 tasks")
	b.waitForText("The task was started.")
	b.press("Open it")
	b.waitForText("One of 2 tasks with this prompt")
	require.NoError(t, b.waitUntil(`() => document.querySelectorAll('table .minus').length === 2`))
	require.NoError(t, b.waitUntil(`() => document.querySelector('tbody tr').textContent.includes('2 (conflict)') || document.querySelector('tbody tr td[data-name="Same lines as"]').textContent.trim() === '2'`))
	b.savePictures("variants", 400, 1280, 2560)
	b.press("Keep 2")
	b.waitForText("kept")
	b.press("Keep only 2")
	b.waitForText("Stop the others and abandon their work?")
	b.press("Yes")
	b.waitForText("abandoned")
	r, err := s.api.ListTasks(t.Context(), &fleetv1.ListTasksRequest{})
	require.NoError(t, err)
	states := map[fleetv1.Landing_State]int{}
	for _, task := range r.GetTasks() {
		states[task.GetLanding().GetState()]++
	}
	require.Equal(t, map[fleetv1.Landing_State]int{fleetv1.Landing_branch: 1, fleetv1.Landing_abandoned: 1}, states)
}
