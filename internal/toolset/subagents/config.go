package subagents

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/google/uuid"

	"fleet/internal/fleet"
	"fleet/internal/service"
)

// Settings configure the subagents. The zero value works.
type Settings struct {
	// Dir is the directory of the definitions: NAME/agent.md or NAME.md, in it or in folders below it. If it does not exist,
	// there are no subagents. If it is empty in the configuration file, the server uses ./agents or ./.claude/agents, the first
	// that exists, otherwise agents beside the user's own configuration file.
	Dir string `yaml:"dir"`
	// Timeout limits the duration of a run if its definition sets no limit; 0 means 10 min.
	Timeout time.Duration `yaml:"timeout"`
	// MaxDepth is how deeply subagents may run each other. With 1, a subagent cannot run other subagents. 0 means 3.
	MaxDepth int `yaml:"max_depth"`
	// Retries is how often a subagent is asked again if its answer does not match its definition. 0 means 2, and a
	// negative value means never.
	Retries int `yaml:"output_retries"`
}

// Validate returns an error that names the first invalid key, or nil.
func (s Settings) Validate() error {
	if s.Timeout < 0 || s.Timeout > service.MaxTaskTimeout {
		return fmt.Errorf("subagents.timeout is %s: it must be more than 0 and at most %s, or 0 for 10 minutes", s.Timeout, service.MaxTaskTimeout)
	}
	if s.MaxDepth < 0 || s.MaxDepth > 10 {
		return fmt.Errorf("subagents.max_depth is %d: it must be from 1 to 10, or 0 for 3", s.MaxDepth)
	}
	if s.Retries > 10 {
		return fmt.Errorf("subagents.output_retries is %d: it must be at most 10", s.Retries)
	}
	return nil
}

// Config configures a Service. The zero value works and has no subagents.
type Config struct {
	Settings
	// Local is the place that runs subagents on this machine; empty means "local".
	Local string
	// MaxWaiting is how many calls may wait for their turn in one conversation; 0 means 8.
	MaxWaiting int
	// QueueWait is how long a call waits for its turn; 0 means 10 min.
	QueueWait time.Duration
	// StartWait is how long a new workspace may take to become ready; 0 means 10 min.
	StartWait time.Duration
	// SweepEvery is the interval of the search for agents that interrupted calls have left behind; 0 means 10 min. The
	// search deletes such an agent if it has no task and has not changed for that long.
	SweepEvery time.Duration

	// Lookup returns a variable of the server's environment; nil means os.LookupEnv. It is never called for variables of
	// Fleet itself.
	Lookup func(name string) (string, bool)
	Now    func() time.Time // nil means time.Now
	NewID  func() string    // nil means random UUIDs
	Logger *slog.Logger     // nil means no log
}

func (c Config) withDefaults() Config {
	c.Local = cmp.Or(c.Local, runsInLocal)
	c.MaxDepth = cmp.Or(c.MaxDepth, 3)
	c.Retries = cmp.Or(c.Retries, 2)
	c.MaxWaiting = cmp.Or(c.MaxWaiting, 8)
	c.Timeout = cmp.Or(c.Timeout, 10*time.Minute)
	c.QueueWait = cmp.Or(c.QueueWait, 10*time.Minute)
	c.StartWait = cmp.Or(c.StartWait, 10*time.Minute)
	c.SweepEvery = cmp.Or(c.SweepEvery, 10*time.Minute)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	lookup := c.Lookup
	if lookup == nil {
		lookup = os.LookupEnv
	}
	c.Lookup = func(name string) (string, bool) {
		if fleet.IsReservedVariable(name) {
			return "", false // the server's own secrets
		}
		return lookup(name)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.NewID == nil {
		c.NewID = uuid.NewString
	}
	return c
}
