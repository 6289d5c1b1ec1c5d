package local

import (
	"maps"
	"strings"

	"fleet/internal/runner"
)

// environ is the environment of a run: what programs need, what the driver needs, what the configuration gives, and
// what tells the program about its task. Nothing else of the server's environment is in it.
func (b *Place) environ(p project, c *confinement, own map[string]string) []string {
	env := runner.Pick(b.config.Environ, runner.Basics, p.driver.Keys(), b.config.PassEnv, p.PassEnv)
	if c != nil {
		maps.DeleteFunc(env, func(name, _ string) bool { return strings.HasPrefix(name, "XDG_") }) // they lead to the user's own home
		maps.Copy(env, c.env)
	}
	maps.Copy(env, p.Env)
	maps.Copy(env, own)
	return runner.Environ(env)
}

// gitEnviron is the environment of the backend's own git: it may use the keys that its user has loaded.
func gitEnviron(c Config) []string {
	return runner.Environ(runner.Pick(c.Environ, runner.Basics, c.PassEnv, []string{"SSH_AUTH_SOCK", "GIT_SSH", "GIT_SSH_COMMAND"}))
}
