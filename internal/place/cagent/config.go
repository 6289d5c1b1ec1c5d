package cagent

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"slices"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/runner/sandbox"
)

// Driver is what the recipes of this backend name.
const Driver = "cagent"

// Config of a Place. The zero value works but for Dir. What runs in processes of their own are told of it has a name in JSON.
type Config struct {
	// Dir is where the agents are. One Place has it at a time.
	Dir string `json:"-"`
	// Catalog has the definitions that are projects; nil: there are none.
	Catalog *Catalog `json:"-"`

	// Places makes the working copies of projects for recipes that have a Place, whatever its name; nil: there are none.
	Places Places `json:"-"`

	// ShimCommand starts runner.ShimMain with the directory of a run as one more argument, and RunCommand starts Main:
	// they supervise and do the runs that have processes of their own. Without them there are none.
	ShimCommand []string `json:"-"`
	RunCommand  []string `json:"-"`
	// StopGrace is how long such a run gets to end by itself before it is killed; 0 means the runner's default.
	StopGrace time.Duration `json:"-"`
	// Sandbox is how such a run is confined; empty means as it can be.
	Sandbox sandbox.Mode `json:"-"`
	// Read and Write are what else it may read, and read and write.
	Read  []string `json:"-"`
	Write []string `json:"-"`

	// Model is what agents think with whose recipe and document name none, as provider/model; empty: the first provider
	// whose key is in the environment.
	Model string
	// Approve are the types of toolsets whose tools agents may use without a word about it in their definitions; nil
	// means DefaultApprove.
	Approve []string
	// NoPrograms refuses definitions that run programs on this machine: see runsPrograms.
	NoPrograms bool
	// ToolEnv names the variables of the environment that registered tools may have in their headers and environments.
	ToolEnv []string
	// Prices of models besides the known ones, by provider/model.
	Prices map[string]Price

	// ToolTimeout bounds one call of a tool, and the start of a toolset; 0 means 5 min.
	ToolTimeout time.Duration
	// MaxToolOutput is how much of a tool's result the model gets, in bytes; 0 means 256 KiB.
	MaxToolOutput int
	// MaxOutput is how much a run may put out before it is ended, in bytes; 0 means 32 MiB.
	MaxOutput int64
	// MaxRequests is how often a run may ask its model; 0 means 500.
	MaxRequests int

	LookupEnv func(string) (string, bool) `json:"-"` // nil means os.LookupEnv
	Now       func() time.Time            `json:"-"` // nil means time.Now
	Logger    *slog.Logger                `json:"-"` // nil means no log
}

// Places is the part of a fleet.Place that makes and removes working copies of projects.
type Places interface {
	// Provision makes the working copy of the agent's project, once for its UID, and returns where it is.
	Provision(ctx context.Context, a fleet.Agent) (fleet.Workspace, error)
	// Delete removes it, and says what was kept of the work in it. One that is gone is no error.
	Delete(ctx context.Context, a fleet.Agent) (kept string, err error)
	// Reach returns what programs that work in it may reach; nil: all that the user may.
	Reach(a fleet.Agent) (*sandbox.Policy, error)
	fleet.Confiner
}

// DefaultApprove are the types of toolsets that do what their definition says and no more. With those of shell,
// filesystem and lsp a model changes files, so a definition that wants them has to say which of their tools it allows.
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

// Price is what a model costs, in US dollars for a million tokens, and how many tokens it takes at a time.
type Price struct {
	Input      float64 `yaml:"input"`
	Output     float64 `yaml:"output"`
	CacheRead  float64 `yaml:"cache_read"`
	CacheWrite float64 `yaml:"cache_write"`
	Context    int     `yaml:"context"`
}
