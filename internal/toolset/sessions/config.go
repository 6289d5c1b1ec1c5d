package sessions

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"
)

// Settings is the section sessions of the configuration file. The zero value works.
type Settings struct {
	// AgentsDir is the directory of agent definitions, YAML files of cagent. If it is empty, the server uses ./agents if
	// that exists, otherwise agents beside the user's own configuration file.
	AgentsDir string `yaml:"agents_dir"`
	// Directories are the directories that agents of sessions may work in, with everything below. If the list is empty, a
	// server without tokens allows every directory, and a server with tokens allows no directory.
	Directories []string `yaml:"directories"`
	// MaxSessions is how many open sessions a principal may have; 0 means 100.
	MaxSessions int `yaml:"max_sessions"`
	// Evict says what happens if the principal has MaxSessions open sessions and creates one more. If true, Fleet closes
	// the least recently used session; if false, it refuses the new session.
	Evict bool `yaml:"evict"`
	// MaxMessages is how many messages a session accepts; 0 means 1000.
	MaxMessages int `yaml:"max_messages"`
	// MaxWaiting is how many messages may wait for their turn in a session; 0 means 16.
	MaxWaiting int `yaml:"max_waiting"`
	// IdleTimeout is how long an unused session stays open; 0 means 1 h, a negative value forever.
	IdleTimeout time.Duration `yaml:"idle_timeout"`
	// TurnTimeout is how long an agent may take to answer a message; 0 means 10 min.
	TurnTimeout time.Duration `yaml:"turn_timeout"`
	// Pulled limits which agents from registries are accepted.
	Pulled PullPolicy `yaml:"pulled"`
}

// PullPolicy limits which agents from registries are accepted. The zero value gives agents the fewest rights.
type PullPolicy struct {
	// Registries are the hosts that agents may be pulled from; empty means any.
	Registries []string `yaml:"registries"`
	// Toolsets are the types of toolsets that pulled agents may have; empty means think, todo, memory.
	Toolsets []string `yaml:"toolsets"`
	// ModelHosts are the hosts that models of pulled agents may use in addition to the hosts of the known providers.
	ModelHosts []string `yaml:"model_hosts"`
	// Login says which credentials are sent to registries: docker for the Docker logins of the server's user, or none.
	// Empty means docker on a server without tokens, otherwise none.
	Login string `yaml:"login"`
	// Timeout limits the duration of a pull; 0 means 60 s.
	Timeout time.Duration `yaml:"timeout"`
}

// Validate returns an error that names the first invalid key, or nil.
func (s Settings) Validate() error {
	for key, n := range map[string]int{"max_sessions": s.MaxSessions, "max_messages": s.MaxMessages, "max_waiting": s.MaxWaiting} {
		if n < 0 {
			return fmt.Errorf("sessions.%s is %d: use a positive number, or 0 for the default", key, n)
		}
	}
	switch {
	case s.TurnTimeout < 0:
		return fmt.Errorf("sessions.turn_timeout is %s: it must be more than 0, or 0 for the default of 10m", s.TurnTimeout)
	case s.Pulled.Login != "" && s.Pulled.Login != "docker" && s.Pulled.Login != "none":
		return fmt.Errorf("sessions.pulled.login is %q: it must be docker or none", s.Pulled.Login)
	case s.Pulled.Timeout < 0:
		return fmt.Errorf("sessions.pulled.timeout is %s: it must be more than 0, or 0 for the default", s.Pulled.Timeout)
	}
	return nil
}

// Config configures a Service. The zero value works.
type Config struct {
	Settings
	// Driver is the driver of agents that are made from definitions. It decides in which place these agents run. Empty
	// means "cagent".
	Driver string
	// ProjectPlace is the place whose projects sessions can name; empty means "local".
	ProjectPlace string
	// AnyDirectory allows agents to work in every directory that PrivateDir does not forbid.
	AnyDirectory bool
	// PrivateDir is the server's own directory. No agent may work in it, in a directory below it, or in one that contains it.
	PrivateDir string
	// AbortGrace is how long a turn continues after its caller has disconnected, if the message has a request id. 0 means
	// 2 min, which is how long the command line tries to reconnect.
	AbortGrace time.Duration
	// SweepEvery is the interval of the search for idle sessions; 0 means a minute.
	SweepEvery time.Duration
	Now        func() time.Time // nil means time.Now
	Logger     *slog.Logger     // nil means no log
}

func (c *Config) setDefaults() {
	c.MaxSessions = cmp.Or(c.MaxSessions, 100)
	c.MaxMessages = cmp.Or(c.MaxMessages, 1000)
	c.MaxWaiting = cmp.Or(c.MaxWaiting, 16)
	c.IdleTimeout = cmp.Or(c.IdleTimeout, time.Hour)
	c.TurnTimeout = cmp.Or(c.TurnTimeout, 10*time.Minute)
	c.AbortGrace = cmp.Or(c.AbortGrace, 2*time.Minute)
	c.ProjectPlace = cmp.Or(c.ProjectPlace, "local")
	c.Driver = cmp.Or(c.Driver, "cagent")
	c.SweepEvery = cmp.Or(c.SweepEvery, time.Minute)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if c.Now == nil {
		c.Now = time.Now
	}
}
