package runner

import (
	"log/slog"
	"sync/atomic"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/runner/acp"
	"fleet/internal/runner/claude"
	"fleet/internal/runner/driver"
	"fleet/internal/runner/question"
	"fleet/internal/runner/sandbox"
	"fleet/internal/runner/shim"
	"fleet/internal/runner/worktree"
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
	processesShared atomic.Bool // runs are in the machine's pid namespace, because the machine does not allow others
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

// Workspace tells a Host how to run an agent's tasks. The package that owns the agent's directory implements it.
type Workspace interface {
	// Ready returns nil if the agent can accept a run, and otherwise an error that says why the agent cannot.
	Ready() error
	// Work returns how to start the agent's program for the run and for its checks. Only Dispatch and Check call it.
	Work(r fleet.Run) (Work, error)
	// Tree returns the agent's repository, or nil if the agent has no repository. It must also work after the agent was
	// deleted.
	Tree() (*Tree, error)
}

// Tree is the repository of an agent.
type Tree struct {
	worktree.Tree
	Git       *worktree.Git
	Exclusive bool // only this agent uses the repository, so its branches exist nowhere else
}

// Work describes how to start a program for a run.
type Work struct {
	Driver  driver.Driver
	Job     driver.Job    // the options of the agent; the host adds the options of the run
	Dir     string        // the working directory
	Timeout time.Duration // upper limit for the run's own time limit; 0 means no upper limit
	// Sandbox limits what the program may access besides its run's files. If Sandbox is nil, the program may access
	// everything that the user of this process may access.
	Sandbox *sandbox.Policy
	// Environ returns the environment of the program. own are the variables that describe its task. If Environ is nil,
	// the environment consists of own, of the BasicVariables of this process's environment, and of the variables that the
	// driver needs.
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
func (host *Host) Agent(name string, home Home, ws Workspace) Agent {
	return Agent{host, home, name, ws}
}

// The commands of Main.
const (
	shimCommand   = "shim"   // supervises a run
	clientCommand = "client" // talks to an agent program in the protocol that the next argument names
	askCommand    = "ask"    // lets an agent's program ask people
)

// Main executes a command of this package if the arguments of the program name one, and returns its exit code. ran reports
// whether it did. Main must be called from main's goroutine.
func Main(args []string) (code int, ran bool) {
	if len(args) < 2 {
		return 0, false
	}
	switch args[0] {
	case shimCommand:
		return shim.Main(args[1:]), true
	case askCommand:
		return question.Main(args[1:]), true
	case clientCommand:
		clients := map[string]func([]string) int{driver.ProtocolACP: acp.Main, driver.ProtocolClaude: claude.Main}
		if talk := clients[args[1]]; talk != nil {
			return talk(args[2:]), true
		}
	}
	return 0, false
}
