package subagents

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"

	"fleet/internal/fleet"
)

// Settings are the part of the server's configuration about subagents. The zero value works.
type Settings struct {
	// Dir is the directory of the definitions: DIR/NAME/agent.md. One that is not there has none.
	Dir string `yaml:"dir"`
	// Timeout is how long a run may take when its definition does not say; 0 means 10 min.
	Timeout time.Duration `yaml:"timeout"`
	// MaxDepth is how many subagents may stand above one another: with 1, none runs another one; 0 means 3.
	MaxDepth int `yaml:"max_depth"`
	// Retries is how often a subagent is asked again when its answer is not what its definition promises; 0 means 2,
	// less than 0 never.
	Retries int `yaml:"output_retries"`
}

// Validate says what is wrong with the settings, by key.
func (s Settings) Validate() error {
	if s.Timeout < 0 || s.Timeout > fleet.MaxTaskTimeout {
		return fmt.Errorf("subagents.timeout is %s: it is from 0s, for 10 minutes, to %s", s.Timeout, fleet.MaxTaskTimeout)
	}
	if s.MaxDepth < 0 || s.MaxDepth > 10 {
		return fmt.Errorf("subagents.max_depth is %d: it is from 1 to 10", s.MaxDepth)
	}
	if s.Retries > 10 {
		return fmt.Errorf("subagents.output_retries is %d: it is at most 10", s.Retries)
	}
	return nil
}

// Config configures a Service. The zero value works: it knows no subagents.
type Config struct {
	Settings
	// Local is the backend that runs subagents on this machine; empty: "local".
	Local string
	// MaxWaiting is how many calls may wait for their turn in one conversation; 0 means 8. QueueWait is how long; 0 means
	// 10 min.
	MaxWaiting int
	QueueWait  time.Duration
	// StartWait is how long a workspace may take to be ready, where there is one to be made; 0 means 10 min.
	StartWait time.Duration
	// SweepEvery is how often agents are looked for that a call has left behind which was cut off; 0 means 10 min. They
	// are deleted when nothing has happened to them for as long.
	SweepEvery time.Duration

	Lookup func(name string) (string, bool) // a variable of the server's environment; nil: os.LookupEnv
	Now    func() time.Time                 // nil: time.Now
	NewID  func() string                    // nil: random UUIDs
	Logger *slog.Logger                     // nil: none
}

func (c Config) withDefaults() Config {
	for _, d := range []struct {
		value    *time.Duration
		standard time.Duration
	}{
		{&c.Timeout, 10 * time.Minute},
		{&c.QueueWait, 10 * time.Minute},
		{&c.StartWait, 10 * time.Minute},
		{&c.SweepEvery, 10 * time.Minute},
	} {
		if *d.value <= 0 {
			*d.value = d.standard
		}
	}
	if c.Local == "" {
		c.Local = inLocal
	}
	if c.MaxDepth <= 0 {
		c.MaxDepth = 3
	}
	if c.Retries == 0 {
		c.Retries = 2
	}
	if c.MaxWaiting <= 0 {
		c.MaxWaiting = 8
	}
	lookup := c.Lookup
	if lookup == nil {
		lookup = os.LookupEnv
	}
	c.Lookup = func(name string) (string, bool) {
		if strings.HasPrefix(name, "FLEET_") || strings.HasPrefix(name, "CODER_") {
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
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}
