package local

import (
	"maps"
	"strings"

	"fleet/internal/runner"
)

// environ returns the environment of a run: the basic variables, those of the driver and of the configuration, and
// those that describe the task. Other variables of the server are left out.
func (b *Place) environ(p project, c *confinement, own map[string]string) []string {
	env := runner.Pick(b.config.Environ, runner.Basics, p.driver.Keys(), b.config.PassEnv, p.PassEnv)
	if c != nil {
		maps.DeleteFunc(env, func(name, _ string) bool { return strings.HasPrefix(name, "XDG_") }) // they point into the user's home
		maps.Copy(env, c.env)
	}
	maps.Copy(env, p.Env)
	maps.Copy(env, own)
	return runner.Environ(env)
}

// gitEnviron returns the environment for the git commands of the place, which may use the user's SSH agent and
// credentials.
func gitEnviron(c Config) []string {
	return runner.Environ(runner.Pick(c.Environ, runner.Basics, c.PassEnv, []string{"SSH_AUTH_SOCK", "GIT_SSH", "GIT_SSH_COMMAND"}))
}
