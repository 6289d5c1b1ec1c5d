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
	var dirs sync.Map // the directory of each place
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
		Project:      "shell",
		Repository:   "repository",
		Role:         "operator",
		SampleConfig: &fleet.AgentConfig{Driver: "shell"},
		Forget:       talker.Forget,
		Checks:       placetest.ShellChecks(),
		Landing:      placetest.ShellLanding("landing"),
		Prompts:      placetest.AskingShellPrompts(),
	})
}
