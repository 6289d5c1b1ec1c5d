package local_test

import (
	"sync"
	"testing"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/place/local"
	"fleet/internal/place/placetest"
	"fleet/internal/runner/driver"
	"fleet/internal/waittest"
)

func TestSuite(t *testing.T) {
	repository := newRepository(t)
	landing := newRepository(t)
	talker := placetest.NewFakeClaude(t)
	var dirs sync.Map // the directories of the places
	open := func(t *testing.T, dir string) fleet.Place {
		p := newPlace(t, dir, func(c *local.Config) {
			c.StopGrace = 300 * time.Millisecond
			c.Projects = append(c.Projects, local.Project{Name: "repository", Repository: repository}, local.Project{Name: "landing", Repository: landing})
			c.Projects = append(c.Projects, local.Project{
				Name: "talks", Driver: "claude", Command: []string{talker.Program}, Env: map[string]string{"CLAUDE_CONFIG_DIR": talker.Config},
				Write: []string{talker.Config}, Roles: []local.Role{{Name: "operator"}},
			})
			for name, timeout := range map[string]time.Duration{"asking": waittest.Limit, "hasty": 20 * time.Millisecond} {
				c.Projects = append(c.Projects, local.Project{Name: name, Roles: []local.Role{{Name: "operator", Permissions: &driver.Permissions{Timeout: timeout}}}})
			}
		})
		dirs.Store(p, dir)
		return p
	}
	placetest.Run(t, placetest.Harness{
		New: func(t *testing.T) fleet.Place { return open(t, t.TempDir()) },
		Reopen: func(t *testing.T, p fleet.Place) fleet.Place {
			dir, _ := dirs.Load(p)
			return open(t, dir.(string))
		},
		Project:    "shell",
		Repository: "repository",
		Role:       "operator",
		Config:     &fleet.AgentConfig{Driver: "shell"},
		Forget:     talker.Forget,
		Checks: placetest.Checks{
			Fails: "echo no compiler >&2; exit 3", Hangs: "echo no compiler; sleep 3600", Output: "no compiler", Sees: "grep 'one line' made",
		},
		Landing: placetest.Landing{
			Project: "landing", Sees: "test -f made && test -f other",
			Changes:     placetest.Prompt{Text: "echo one line >made", Summary: "made"},
			Other:       placetest.Prompt{Text: "echo another >other; git add other; git -c user.name=a -c user.email=a@example.com commit -qm other", Summary: "other"},
			Conflicting: placetest.Prompt{Text: "echo different >made"},
		},
		Prompts: placetest.Prompts{
			Says: placetest.Prompt{
				Text:    "echo first; echo second >&2; sleep 0.06; echo third; echo all well",
				Lines:   []string{"first", "second", "third"},
				Summary: "all well",
			},
			Works:            placetest.Prompt{Text: "echo at work; sleep 3600", Lines: []string{"at work"}},
			Fails:            placetest.Prompt{Text: "echo no compiler >&2; exit 3", Reason: "exit code 3: no compiler"},
			IgnoresInterrupt: placetest.Prompt{Text: "trap 'echo I do not listen' TERM; echo deaf; while true; do read -t 3600 <$FLEET_MESSAGES || true; done", Lines: []string{"deaf"}, Reply: "I do not listen"},
			Payload:          placetest.Prompt{Text: `printf 'x: 1\ny: 2' >"$FLEET_PAYLOAD"; echo done`, Payload: []byte("x: 1\ny: 2")},
			Changes:          placetest.Prompt{Text: "echo one line >made; echo done", Lines: []string{"+one line", "made"}, Summary: "made"},
			Asks: placetest.Prompt{
				Project: "asking", Lines: []string{"at work"},
				Text: `echo at work; "$FLEET_ASK" permission Bash '{"command":"touch asked"}' || true; "$FLEET_ASK" question 'tabs or spaces?' tabs spaces`,
			},
			Converses:          placetest.Prompt{Project: "talks", Text: "go on"},
			UnansweredQuestion: placetest.Prompt{Project: "hasty", Text: `"$FLEET_ASK" question 'anybody?' || echo no answer`, Reply: "no answer"},
			Listens:            placetest.Prompt{Text: `echo I listen; for i in 1 2; do read -r m <"$FLEET_MESSAGES"; printf '%s\n' "$m"; done`, Lines: []string{"I listen"}},
		},
	})
}
