package runner

import (
	"log/slog"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/runner/acp"
	"fleet/internal/runner/driver"
	"fleet/internal/runner/sandbox"
	"fleet/internal/runner/shim"
	"fleet/internal/runner/worktree"
)

// Config configures a Host. Only ShimCommand is needed.
type Config struct {
	ShimCommand []string      // starts shim.Main, with the directory of a run as one more argument
	ACPCommand  []string      // starts acp.Main, with the file of its job as one more argument; none: no runs of the driver acp
	MaxOutput   int64         // bytes of output that a run can have; 0: 16 MiB
	StopGrace   time.Duration // how long a run gets to end by itself before it is killed; 0: 5 s
	Logger      *slog.Logger  // nil: none
}

// The defaults of a Config.
const (
	DefaultMaxOutput = 16 << 20
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
	// Work says how the agent's program is started on the run. Dispatch alone calls it.
	Work(r fleet.Run) (Work, error)
	// Tree returns the repository that the agent works in, also of an agent that was deleted; nil if there is none.
	Tree() (*Tree, error)
}

// Tree is the repository that an agent works in.
type Tree struct {
	worktree.Tree
	Git *worktree.Git
	UID string // of the agent
}

// Work is how a program is started on a run.
type Work struct {
	Driver  driver.Driver
	Job     driver.Job    // all of it but RunDir, Session and Helper, which the host fills in
	Dir     string        // where the program is started
	Timeout time.Duration // the longest that a run may take here; 0: what the run says
	// Sandbox is what the program may reach besides its run's files; nil: everything that this user may.
	Sandbox *sandbox.Policy
	// Environ returns the environment of the program; own are the variables that tell it about its task.
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
