package subagents

import (
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"
)

// Config configures a Service. The zero value works: it knows no subagents.
type Config struct {
	// Dir is the directory of the definitions: DIR/NAME/agent.md. One that is not there has none.
	Dir string
	// Timeout is how long a run may take when its definition does not say; 0 means 10 min.
	Timeout time.Duration
	// MaxDepth is how many subagents may stand above one another: with 1, none runs another one; 0 means 3.
	MaxDepth int
	// Retries is how often a subagent is asked again when its answer is not what its definition promises; 0 means 2,
	// less than 0 never.
	Retries int
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
