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

// Config configures a Host. Only ShimCommand is needed.
type Config struct {
	ShimCommand []string      // starts shim.Main, with the directory of a run as one more argument
	ACPCommand  []string      // starts acp.Main, with the file of its job as one more argument; none: no runs of the driver acp
	AskCommand  []string      // starts ask.Main, with the directory of a run and what to do as more arguments; none: runs ask nobody
	MaxOutput   int64         // bytes of output that the payload of a run has at most; 0: 16 MiB
	OutputMax   int64         // bytes of raw output that are kept of a run; 0: 256 MiB; never less than MaxOutput
	StopGrace   time.Duration // how long a run gets to end by itself before it is killed; 0: 5 s
	Logger      *slog.Logger  // nil: none
}

// The defaults of a Config.
const (
	DefaultMaxOutput = 16 << 20
	DefaultOutputMax = 256 << 20
	DefaultStopGrace = 5 * time.Second
)

// Host runs the tasks of the agents of one machine.
type Host struct {
	config Config
	reaper *reaper
}

// New makes a host. Close it.
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

// Close ends what the host does in the background, and waits for it. Runs go on.
func (h *Host) Close() { h.reaper.close() }

// Workspace is what the owner of an agent's directory decides about its runs.
type Workspace interface {
	// Ready says why the agent cannot take a run; nil if it can.
	Ready() error
	// Work says how the agent's program is started on the run, and checks of the run. Dispatch and Check alone call it.
	Work(r fleet.Run) (Work, error)
	// Tree returns the repository that the agent works in, also of an agent that was deleted; nil if there is none.
	Tree() (*Tree, error)
}

// Tree is the repository that an agent works in.
type Tree struct {
	worktree.Tree
	Git *worktree.Git
	UID string // of the agent
	Own bool   // the repository belongs to the agent alone: what is on its branches is nowhere else
}

// Work is how a program is started on a run.
type Work struct {
	Driver  driver.Driver
	Job     driver.Job    // what is said of the agent; the host fills in what is said of the run
	Dir     string        // where the program is started
	Timeout time.Duration // the longest that a run may take here; 0: what the run says
	// Sandbox is what the program may reach besides its run's files; nil: everything that this user may.
	Sandbox *sandbox.Policy
	// Environ returns the environment of the program; own are the variables that tell it about its task. Nil: own, and of this
	// process's environment the Basics and what the driver needs.
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

// Agent returns the runner of the agent whose directory is home. It asks nobody.
func (h *Host) Agent(name string, home Home, ws Workspace) Agent { return Agent{h, home, name, ws} }

// ShimMain is the program that supervises a run. It must be called from main's own goroutine, when the program is started
// as Config.ShimCommand says. It returns the exit code.
func ShimMain(args ...string) int { return shim.Main(args) }

// ACPMain is the client of agent programs that speak the Agent Client Protocol. It must be called from main's own goroutine,
// when the program is started as Config.ACPCommand says. It returns the exit code.
func ACPMain(args ...string) int { return acp.Main(args) }

// AskMain lets the program of an agent ask, when the program is started as Config.AskCommand says. It returns the exit code.
func AskMain(args ...string) int { return ask.Main(args) }
