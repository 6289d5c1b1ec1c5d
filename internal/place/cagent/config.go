package cagent

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/price"
	"fleet/internal/runner/sandbox"
)

// Driver is the driver that configurations for this place name.
const Driver = "cagent"

// Drivers returns the drivers of every Place.
func Drivers() []fleet.Driver {
	return []fleet.Driver{{Name: Driver, Tools: true, MCPServers: true, Remembers: true, NeedsDocument: true}}
}

// Config configures a Place. Only Dir is required. Fields that are not excluded from JSON are passed to the process of
// a run.
type Config struct {
	// Name is the name of the place; empty: cagent.
	Name string `json:"-"`
	// Dir is the directory with the agents. Only one Place may use it at a time.
	Dir string `json:"-"`
	// Catalog has the definitions that are projects; nil: there are no projects.
	Catalog *Catalog `json:"-"`

	// Places creates working copies of projects, for agents whose configuration names a place; nil: such agents cannot
	// be created.
	Places Places `json:"-"`

	// Program supervises runs: see runner.Config. RunCommand runs Main, to execute a run.
	Program    string   `json:"-"`
	RunCommand []string `json:"-"`
	// StopGrace is how long a run in its own process may take to stop before it is killed; 0: the runner's default.
	StopGrace time.Duration `json:"-"`
	// Sandbox is how a run in its own process is confined; empty: by the best available method.
	Sandbox sandbox.Mode `json:"-"`
	// Read and Write are additional paths that a run in its own process may read, or read and write.
	Read  []string `json:"-"`
	Write []string `json:"-"`
	// Hide are directories of the server in which a run in its own process sees only its own files.
	Hide []string `json:"-"`

	// Model is the model, as provider/model, for agents whose configuration and document name no model. If it is empty,
	// such agents use a model of the first provider whose key is in the environment.
	Model string
	// Approve are the types of toolsets whose tools need no permission in a definition; nil: DefaultApprove.
	Approve []string
	// NoPrograms refuses definitions that run programs on this machine: see runsPrograms.
	NoPrograms bool
	// ToolEnv names the environment variables that registered tools may use in their headers and environments.
	ToolEnv []string
	// Prices are the prices of models. A run in its own process keeps those with which it began.
	Prices *price.List

	// ToolTimeout limits one tool call, and the start of a toolset; 0: 5 min.
	ToolTimeout time.Duration
	// MaxToolOutput limits the result of a tool that is sent to the model, in bytes; 0: 256 KiB.
	MaxToolOutput int
	// MaxOutput is the size of output at which a run is ended, in bytes; 0: 32 MiB.
	MaxOutput int64
	// MaxRequests limits the requests of a run to its model; 0: 500.
	MaxRequests int

	LookupEnv func(string) (string, bool) `json:"-"` // nil: os.LookupEnv
	Now       func() time.Time            `json:"-"` // nil: time.Now
	Logger    *slog.Logger                `json:"-"` // nil: no logging
}

// Places is the part of a fleet.Place that creates and deletes working copies of projects.
type Places interface {
	// Provision creates the working copy of the agent's project, once per UID, and returns where it is.
	Provision(ctx context.Context, a fleet.Agent) (fleet.Workspace, error)
	// Delete removes the working copy. kept describes the work that was kept. Delete succeeds if there is no working
	// copy.
	Delete(ctx context.Context, a fleet.Agent) (kept string, err error)
	// Reach returns what programs in the working copy may access; nil: everything that the server's user may access.
	Reach(a fleet.Agent) (*sandbox.Policy, error)
	// CheckDir returns an error if no agent may work in the directory, whose path has no symbolic links.
	CheckDir(dir string) error
	fleet.Confiner
}

// DefaultApprove are the types of toolsets that do only what their definition says. With the tools of shell, filesystem
// and lsp, a model can change files, so a definition must say which of these tools it allows.
var DefaultApprove = []string{"think", "todo", "memory", "fetch", "mcp", "api", "a2a", "script"}

func (c *Config) fill() {
	if c.Approve == nil {
		c.Approve = slices.Clone(DefaultApprove)
	}
	c.ToolTimeout = cmp.Or(c.ToolTimeout, 5*time.Minute)
	c.MaxToolOutput = cmp.Or(c.MaxToolOutput, 256<<10)
	c.MaxOutput = cmp.Or(c.MaxOutput, 32<<20)
	c.MaxRequests = cmp.Or(c.MaxRequests, 500)
	if c.LookupEnv == nil {
		c.LookupEnv = os.LookupEnv
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
}

// resolve replaces the paths that runs may write by paths without symbolic links, which sandboxes need.
func (c *Config) resolve() (err error) {
	c.Write = slices.Clone(c.Write)
	for i := range c.Write {
		if c.Write[i], err = filepath.EvalSymlinks(c.Write[i]); err != nil {
			return err
		}
	}
	c.Hide = slices.Clone(c.Hide)
	for i := range c.Hide {
		if c.Hide[i], err = filepath.EvalSymlinks(c.Hide[i]); err != nil {
			return err
		}
	}
	c.Dir, err = filepath.EvalSymlinks(c.Dir)
	return err
}
