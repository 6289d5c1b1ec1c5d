//go:build cgo

package cagent

import (
	"cmp"
	"time"

	"fleet/internal/fleet"
)

// engine holds what the place and a run's process need.
type engine struct {
	config      Config
	secrets     *secrets // secrets that definitions may use
	toolSecrets *secrets // secrets that registered tools may use
	home        string   // HOME of the agents' programs; empty: the agent's working directory
	marks       []string // variables by which a supervisor recognises the processes of a run
}

func newEngine(c Config) (*engine, error) {
	c.fill()
	if err := useBuiltinModelTable(); err != nil {
		return nil, fleet.Errorf(fleet.ReasonBackendUnavailable, "cagent needs a home directory: set HOME").WithCause(err)
	}
	registerSchemes()
	return &engine{
		config:      c,
		secrets:     &secrets{lookup: c.LookupEnv},
		toolSecrets: &secrets{lookup: c.LookupEnv, only: append([]string{}, c.ToolEnv...)},
	}, nil
}

// startTimeout returns how long a toolset may take to start.
func (e *engine) startTimeout() time.Duration { return min(e.config.ToolTimeout, 30*time.Second) }

// environ returns the environment of an agent's programs that run in dir. pass names additional variables of this
// process.
func (e *engine) environ(pass []string, dir string) []string {
	env := append([]string{"HOME=" + cmp.Or(e.home, dir)}, e.marks...)
	for _, name := range append([]string{"PATH", "LANG", "LC_ALL", "TZ", "TMPDIR"}, pass...) {
		if v, ok := e.secrets.lookup(name); ok && !serversOwn(name) {
			env = append(env, name+"="+v)
		}
	}
	return env
}
