package runner

import (
	"log/slog"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/runner/acp"
	"fleet/internal/runner/ask"
	"fleet/internal/runner/driver"
	"fleet/internal/runner/sandbox"
	"fleet/internal/runner/shim"
	"fleet/internal/runner/worktree"
)

// Config configures a Host. Only ShimCommand is required.
type Config struct {
	ShimCommand []string      // runs shim.Main; the directory of the run is appended
	ACPCommand  []string      // runs acp.Main; the path of the job file is appended; empty: the driver acp is unavailable
	AskCommand  []string      // runs ask.Main; the run's directory and a verb are appended; empty: runs cannot ask questions
	MaxOutput   int64         // the most output in the payload of a run, in bytes; 0: 16 MiB
	OutputMax   int64         // the most raw output that is kept of a run, in bytes; 0: 256 MiB; at least MaxOutput
	StopGrace   time.Duration // how long a run may take to stop before it is killed; 0: 5 s
	Logger      *slog.Logger  // nil: no logging
}

// Defaults of Config.
const (
	DefaultMaxOutput = 16 << 20
	DefaultOutputMax = 256 << 20
	DefaultStopGrace = 5 * time.Second
)

// Host executes the tasks of agents on one machine.
type Host struct {
	config Config
	reaper *reaper
}

// New creates a Host. The caller must close it.
func New(c Config) *Host {
	if c.MaxOutput == 0 {
		c.MaxOutput = DefaultMaxOutput
	}
	if c.OutputMax == 0 {
		c.OutputMax = DefaultOutputMax
	}
	c.OutputMax = max(c.OutputMax, c.MaxOutput)
	if c.StopGrace == 0 {
		c.StopGrace = DefaultStopGrace
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &Host{config: c, reaper: newReaper()}
}

// Close stops the host's background work and waits for it. Runs continue.
func (h *Host) Close() { h.reaper.close() }

// Workspace provides what a Host must know about an agent's runs. The owner of the agent's directory implements it.
type Workspace interface {
	// Ready returns why the agent cannot accept a run; nil if it can.
	Ready() error
	// Work returns how to start the agent's program for the run and for its checks. Only Dispatch and Check call it.
	Work(r fleet.Run) (Work, error)
	// Tree returns the repository of the agent, also after the agent was deleted; nil if there is none.
	Tree() (*Tree, error)
}

// Tree is the repository of an agent.
type Tree struct {
	worktree.Tree
	Git *worktree.Git
	UID string // of the agent
	Own bool   // only this agent uses the repository, so its branches exist nowhere else
}

// Work describes how to start a program for a run.
type Work struct {
	Driver  driver.Driver
	Job     driver.Job    // the options of the agent; the host adds those of the run
	Dir     string        // the working directory
	Timeout time.Duration // the longest time for a run; 0: the run's own limit
	// Sandbox limits what the program may access besides its run's files; nil: everything that this user may.
	Sandbox *sandbox.Policy
	// Environ returns the environment of the program. own are the variables that describe its task. Nil: own, the
	// Basics of this process's environment, and the variables that the driver needs.
	Environ func(own map[string]string) []string
}

// Agent is one agent of a Host. It implements fleet.Runner.
type Agent struct {
	host *Host
	home Home
	name string
	ws   Workspace
}

var _ fleet.Runner = Agent{}

// Agent returns the runner of the agent with the directory home. It accesses no files.
func (h *Host) Agent(name string, home Home, ws Workspace) Agent { return Agent{h, home, name, ws} }

// ShimMain supervises a run. It must be called from main's goroutine when the program is started with
// Config.ShimCommand. It returns the exit code.
func ShimMain(args ...string) int { return shim.Main(args) }

// ACPMain is a client for agent programs that speak the Agent Client Protocol. It must be called from main's goroutine
// when the program is started with Config.ACPCommand. It returns the exit code.
func ACPMain(args ...string) int { return acp.Main(args) }

// AskMain lets an agent's program ask questions when the program is started with Config.AskCommand. It returns the exit
// code.
func AskMain(args ...string) int { return ask.Main(args) }
