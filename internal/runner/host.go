package runner

import (
	"log/slog"
	"sync/atomic"
	"time"

	"fleet/internal/fleet"
)

// Config configures a Host. Only Program is required.
type Config struct {
	Program          string        // a program whose main calls Main: it supervises runs, and talks to agent programs
	MaxPayloadOutput int64         // limit for the output in a run's payload, in bytes; 0 means DefaultMaxPayloadOutput
	MaxRawOutput     int64         // limit for a run's stored raw output, in bytes, at least MaxPayloadOutput; 0 means DefaultMaxRawOutput
	StopGrace        time.Duration // how long a run may take to stop before it is killed; 0 means DefaultStopGrace
	Logger           *slog.Logger  // nil disables logging
}

// Defaults of Config.
const (
	DefaultMaxPayloadOutput = 16 << 20
	DefaultMaxRawOutput     = 256 << 20
	DefaultStopGrace        = 5 * time.Second
)

// Host executes the tasks of agents on one machine.
type Host struct {
	config          Config
	reaper          *reaper
	processesShared atomic.Bool // runs share the machine's pid namespace, because the machine allows no others
}

// New creates a Host. The caller must close it.
func New(c Config) *Host {
	if c.MaxPayloadOutput == 0 {
		c.MaxPayloadOutput = DefaultMaxPayloadOutput
	}
	if c.MaxRawOutput == 0 {
		c.MaxRawOutput = DefaultMaxRawOutput
	}
	c.MaxRawOutput = max(c.MaxRawOutput, c.MaxPayloadOutput)
	if c.StopGrace == 0 {
		c.StopGrace = DefaultStopGrace
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &Host{config: c, reaper: newReaper()}
}

// Close stops the host's background work and waits for it. Runs continue.
func (host *Host) Close() { host.reaper.close() }

// Agent is one agent of a Host. It implements fleet.Runner.
type Agent struct {
	host *Host
	home Home
	name string
	ws   Workspace
}

var _ fleet.Runner = Agent{}

// Agent returns the runner of the agent with the directory home. It accesses no files.
func (host *Host) Agent(name string, home Home, ws Workspace) Agent {
	return Agent{host, home, name, ws}
}
