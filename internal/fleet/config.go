package fleet

import (
	"crypto/rand"
	"fmt"
	"log/slog"
	"time"
)

// Config is what can be set of the core. The zero value works.
type Config struct {
	// CreateWait is how long create, start, stop, restart and delete of an agent wait for it to be done before they
	// answer how far it is; 0 means 45 s.
	CreateWait time.Duration
	// MessageWait is how long sending a message waits for the agent to have it, before it answers that it is kept; 0 means 2 s.
	MessageWait time.Duration
	// TaskTimeout is how long a task may run when its request does not say; 0 means 24 h.
	TaskTimeout time.Duration
	// StopGrace is how long a run gets to end by itself after it was interrupted, before it is killed; 0 means the
	// backend's own, else 5 s.
	StopGrace time.Duration
	// StallTimeout is how long a run may put nothing out before its task counts as stalled, while no tool is at work; 0 means
	// 10 min, negative never.
	StallTimeout time.Duration
	// PollInterval is how often the backend is asked for the state of all workspaces when nothing moves; 0 means the
	// backend's own, else 5 s.
	PollInterval time.Duration
	// LeaseTTL is how long a replica that died keeps others from its agents; 0 means 10 s.
	LeaseTTL time.Duration
	// Limits are how much one principal may have.
	Limits Limits
	// MaxOutput is how much output of a task goes into the event log, in bytes; 0 means 16 MiB.
	MaxOutput int64
	// Retention is how long events and request ids are kept; 0 means 30 days, negative for ever. PayloadRetention is how
	// long payloads are kept after their tasks have ended; 0 means 90 days, negative for ever. Tasks are kept until they
	// are deleted. PruneEvery is how often what is older is removed; 0 means 1 h.
	Retention, PayloadRetention, PruneEvery time.Duration
	// Workers is how many workspaces are made, started, stopped and deleted at a time; 0 means 16. Four times as many
	// agents are handed a task, interrupted or looked at.
	Workers int
	// OpTimeout is how long the backend may take to make, start, stop or delete a workspace before it is asked again;
	// 0 means 15 min. CallTimeout is the same for its other calls, but those that follow a run; 0 means 1 min.
	OpTimeout, CallTimeout time.Duration

	// Hosts are backends besides the one that hosts the fleet, by the name that Agent.Backend has for them.
	Hosts map[string]Place
	// MCPURL returns where this Fleet's MCP endpoints are, without the toolset, for agents that report; "" or nil when
	// there are none.
	MCPURL func() string

	Now    func() time.Time // nil means time.Now
	NewID  func() string    // nil means random UUIDs
	Logger *slog.Logger     // nil means no log
	// Fault is called at the named points of what the reconciler does, where a test lets the process die; nil means
	// no faults. The points are the constants Fault....
	Fault func(point string)
}

func (c Config) withDefaults(t Traits) Config {
	set := func(d *time.Duration, values ...time.Duration) {
		for _, v := range values {
			if *d == 0 {
				*d = v
			}
		}
	}
	set(&c.CreateWait, 45*time.Second)
	set(&c.MessageWait, 2*time.Second)
	set(&c.TaskTimeout, 24*time.Hour)
	set(&c.StopGrace, t.StopGrace, 5*time.Second)
	set(&c.StallTimeout, 10*time.Minute)
	set(&c.PollInterval, t.PollInterval, 5*time.Second)
	set(&c.LeaseTTL, 10*time.Second)
	set(&c.OpTimeout, 15*time.Minute)
	set(&c.CallTimeout, time.Minute)
	set(&c.Retention, 30*24*time.Hour)
	set(&c.PayloadRetention, 90*24*time.Hour)
	set(&c.PruneEvery, time.Hour)
	if c.MaxOutput == 0 {
		c.MaxOutput = 16 << 20
	}
	if c.Workers == 0 {
		c.Workers = 16
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.NewID == nil {
		c.NewID = newUUID
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Fault == nil {
		c.Fault = func(string) {}
	}
	return c
}

// newUUID returns a random UUID, version 4 (RFC 9562).
func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
