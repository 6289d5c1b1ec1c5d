package sessions

import (
	"fmt"
	"log/slog"
	"time"
)

// Settings are what people configure. The zero value works.
type Settings struct {
	// AgentsDir has the definitions of agents, YAML files of cagent. The server finds one when it is empty.
	AgentsDir string `yaml:"agents_dir"`
	// Directories are those that agents of sessions can be given to work in, with all below them. Without any, a server
	// without tokens gives any directory, and one with tokens none.
	Directories []string `yaml:"directories"`
	// MaxSessions is how many open sessions a principal may have; 0 means 100.
	MaxSessions int `yaml:"max_sessions"`
	// Evict has a new session close the one that was not used for the longest time, instead of being refused, when a
	// principal has MaxSessions.
	Evict bool `yaml:"evict"`
	// MaxMessages is how many messages a session takes; 0 means 1000.
	MaxMessages int `yaml:"max_messages"`
	// MaxWaiting is how many messages may wait for their turn in a session; 0 means 16.
	MaxWaiting int `yaml:"max_waiting"`
	// IdleTimeout is how long a session stays open that is not used; 0 means 24 h, negative for ever.
	IdleTimeout time.Duration `yaml:"idle_timeout"`
	// TurnTimeout is how long an answer may take; 0 means 10 min.
	TurnTimeout time.Duration `yaml:"turn_timeout"`
	// Pulled says what agents of registries may do.
	Pulled Pulling `yaml:"pulled"`
}

// Pulling says which agents of registries are taken. The zero value is the safe one.
type Pulling struct {
	// Registries are the hosts that agents may be pulled from; empty: any.
	Registries []string `yaml:"registries"`
	// Toolsets are the types of toolsets they may have; empty: think, todo, memory.
	Toolsets []string `yaml:"toolsets"`
	// ModelHosts are the hosts that their models may be at, besides those of the known providers.
	ModelHosts []string `yaml:"model_hosts"`
	// Login is what registries are asked with: docker, for the logins of the server's user, or none; empty: docker on a
	// server without tokens, else none.
	Login string `yaml:"login"`
	// Timeout is how long a registry gets to answer; 0 means 60 s.
	Timeout time.Duration `yaml:"timeout"`
}

// Validate says what is wrong with the settings, by key.
func (s Settings) Validate() error {
	for key, n := range map[string]int{"max_sessions": s.MaxSessions, "max_messages": s.MaxMessages, "max_waiting": s.MaxWaiting} {
		if n < 0 {
			return fmt.Errorf("sessions.%s is %d: it is a number from 1, or 0 for the default", key, n)
		}
	}
	switch {
	case s.TurnTimeout < 0:
		return fmt.Errorf("sessions.turn_timeout is %s: it is more than 0, or 0 for the default of 10m", s.TurnTimeout)
	case s.Pulled.Login != "" && s.Pulled.Login != "docker" && s.Pulled.Login != "none":
		return fmt.Errorf("sessions.pulled.login is %q: it is docker or none", s.Pulled.Login)
	case s.Pulled.Timeout < 0:
		return fmt.Errorf("sessions.pulled.timeout is %s: it is more than 0, or 0 for the default", s.Pulled.Timeout)
	}
	return nil
}

// Config of a Service.
type Config struct {
	Settings
	// Backend hosts the agents of definitions, and Driver is what it runs them with; both are "cagent" unless set.
	Backend, Driver string
	// Places is the backend whose projects agents can be given to work in; "local" unless set.
	Places string
	// AnyDirectory says that callers may have agents work in any directory, but for Private.
	AnyDirectory bool
	// Private is the server's own directory, in which no agent is let.
	Private string
	// AbortGrace is how long a turn goes on whose caller has gone, when its message has a request id; 0 means 2 min, as
	// long as the command line tries to reach a server again.
	AbortGrace time.Duration
	// SweepEvery is how often idle sessions are looked for; 0 means a minute.
	SweepEvery time.Duration
	Now        func() time.Time // nil means time.Now
	Logger     *slog.Logger     // nil means no log
}

func (c *Config) fill() {
	set := func(n *int, to int) {
		if *n == 0 {
			*n = to
		}
	}
	set(&c.MaxSessions, 100)
	set(&c.MaxMessages, 1000)
	set(&c.MaxWaiting, 16)
	if c.IdleTimeout == 0 {
		c.IdleTimeout = 24 * time.Hour
	}
	if c.TurnTimeout == 0 {
		c.TurnTimeout = 10 * time.Minute
	}
	if c.AbortGrace == 0 {
		c.AbortGrace = 2 * time.Minute
	}
	if c.Backend == "" {
		c.Backend = "cagent"
	}
	if c.Places == "" {
		c.Places = "local"
	}
	if c.Driver == "" {
		c.Driver = "cagent"
	}
	if c.SweepEvery == 0 {
		c.SweepEvery = time.Minute
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
}
