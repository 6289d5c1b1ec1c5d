//go:build cgo

package cagent

import (
	"cmp"
	"os"
	"time"

	"fleet/internal/fleet"
)

// engine is what runs need of the process that they are in: the server's, or one of their own.
type engine struct {
	config      Config
	secrets     *secrets // for definitions
	toolSecrets *secrets // for registered tools
	home        string   // of the programs of agents; empty: the directory that an agent works in
	marks       []string // variables by which a supervisor knows what a run has started
}

func newEngine(c Config) (*engine, error) {
	c.fill()
	if err := stayHome(); err != nil {
		return nil, fleet.Errorf(fleet.ReasonBackendUnavailable, "cagent needs a home directory: set HOME").WithCause(err)
	}
	onWire()
	return &engine{
		config:      c,
		secrets:     &secrets{lookup: c.LookupEnv},
		toolSecrets: &secrets{lookup: c.LookupEnv, only: append([]string{}, c.ToolEnv...)},
	}, nil
}

// startTimeout is how long a toolset may take to start.
func (e *engine) startTimeout() time.Duration { return min(e.config.ToolTimeout, 30*time.Second) }

// environ is what programs of an agent that works in the directory get of the server's environment.
func (e *engine) environ(pass []string, dir string) []string {
	env := append([]string{"HOME=" + cmp.Or(e.home, dir)}, e.marks...)
	for _, name := range append([]string{"PATH", "LANG", "LC_ALL", "TZ", "TMPDIR"}, pass...) {
		if v, ok := e.secrets.lookup(name); ok && !serversOwn(name) {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// workDir makes the directory that an agent works in.
func workDir(dir string) error { return os.MkdirAll(dir, 0o700) }
