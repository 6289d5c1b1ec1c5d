package local_test

import (
	"sync"
	"testing"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/place/local"
	"fleet/internal/place/placetest"
)

func TestSuite(t *testing.T) {
	repository := t.TempDir()
	git(t, repository, "git init -q -b main; echo one >file; git add file; git commit -qm one")
	var dirs sync.Map // of the backends
	open := func(t *testing.T, dir string) fleet.Place {
		b := newBackend(t, dir, func(c *local.Config) {
			c.StopGrace = 300 * time.Millisecond
			c.Projects = append(c.Projects, local.Project{Name: "repository", Repository: repository})
		})
		dirs.Store(b, dir)
		return b
	}
	placetest.Run(t, placetest.Harness{
		New: func(t *testing.T) fleet.Place { return open(t, t.TempDir()) },
		Reopen: func(t *testing.T, b fleet.Place) fleet.Place {
			dir, _ := dirs.Load(b)
			return open(t, dir.(string))
		},
		Project:    "shell",
		Repository: "repository",
		Role:       "operator",
		Recipe:     &fleet.Recipe{Driver: "shell"},
		Prompts: placetest.Prompts{
			Says: placetest.Prompt{
				Text:    "echo first; echo second >&2; sleep 0.06; echo third; echo all well",
				Lines:   []string{"first", "second", "third"},
				Summary: "all well",
			},
			Works:   placetest.Prompt{Text: "echo at work; sleep 3600", Lines: []string{"at work"}},
			Fails:   placetest.Prompt{Text: "echo no compiler >&2; exit 3", Reason: "exit code 3: no compiler"},
			Deaf:    placetest.Prompt{Text: "trap 'echo I do not listen' TERM; echo deaf; while true; do read -t 3600 <$FLEET_MESSAGES || true; done", Lines: []string{"deaf"}, Reply: "I do not listen"},
			Payload: placetest.Prompt{Text: `printf 'x: 1\ny: 2' >"$FLEET_PAYLOAD"; echo done`, Payload: []byte("x: 1\ny: 2")},
			Changes: placetest.Prompt{Text: "echo one line >made; echo done", Lines: []string{"+one line", "made"}, Summary: "made"},
			Listens: placetest.Prompt{Text: `echo I listen; for i in 1 2; do read -r m <"$FLEET_MESSAGES"; printf '%s\n' "$m"; done`, Lines: []string{"I listen"}},
		},
	})
}
