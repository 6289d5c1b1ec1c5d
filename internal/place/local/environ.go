package local

import (
	"maps"
	"strings"

	"fleet/internal/runner"
)

// environ returns the environment of a run or check. It has the basic variables, the variables of the driver, of the configuration
// and of the confinement c, which may be nil, and taskVariables, which describe the task. It leaves out all other variables of the
// server.
func (p *Place) environ(proj project, c *confinement, taskVariables map[string]string) []string {
	keys, passEnv := proj.driver.Keys(), p.config.PassEnv
	if proj.modelConfig != nil { // the configuration of an agent on a model names all variables that the agent gets
		passEnv = nil
		if taskVariables["FLEET_CHECK"] != "" { // a check runs code that the agent has written, so it must not get the key of the model
			keys = nil
		}
	}
	env := runner.PickVariables(p.config.Environ, runner.BasicVariables, keys, passEnv, proj.PassEnv)
	if c != nil {
		maps.DeleteFunc(env, func(name, _ string) bool { return strings.HasPrefix(name, "XDG_") }) // these variables point into the user's home
		maps.Copy(env, c.env)
	}
	maps.Copy(env, proj.Env)
	if c != nil {
		c.addCaches(env)
	}
	maps.Copy(env, taskVariables)
	return runner.Environ(env)
}

// gitEnviron returns the environment for the git commands that the place runs itself. These commands may use the user's
// SSH agent and credentials.
func gitEnviron(c Config) []string {
	return runner.Environ(runner.PickVariables(c.Environ, runner.BasicVariables, c.PassEnv, []string{"SSH_AUTH_SOCK", "GIT_SSH", "GIT_SSH_COMMAND"}))
}
