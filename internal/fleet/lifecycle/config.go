package lifecycle

import (
	"fmt"
	"time"
)

// Config says what the agents of contracts are made of. The zero value is the claude of this machine.
type Config struct {
	// Backend hosts the agents: local, cagent, or the one of the fleet.
	Backend string `yaml:"backend"`
	// Driver is what runs them there: claude or command with local, cagent with cagent. Empty with Project.
	Driver string `yaml:"driver"`
	// Project and Role make the agents as those of the fleet are made, in a project of the backend: local or Coder. A
	// request can name another project of the fleet.
	Project string `yaml:"project"`
	Role    string `yaml:"role"`
	// Model is the model: a name that claude knows, or "provider/model" with cagent.
	Model string `yaml:"model"`
	// Command is the program and its arguments, with the driver command.
	Command []string `yaml:"command"`
	// Allow and Deny are the tools that claude may and may not use. Without Allow it may change files in its own directory,
	// and run no programs.
	Allow []string `yaml:"allow"`
	Deny  []string `yaml:"deny"`
	// Document is a cagent document of its own, in the place of one that is made of Model.
	Document string `yaml:"document"`
	// PassEnv names variables of the server's environment that the agents get, for one the key of the model's API.
	PassEnv []string `yaml:"pass_env"`
	// MaxPayload is the largest payload in bytes before compression; 0 means 16 MiB.
	MaxPayload int `yaml:"max_payload"`
	// Keep is how long the files that an agent without a repository made are kept after it has ended; 0 means 24 h, less
	// than 0 not at all.
	Keep time.Duration `yaml:"keep"`
	// MaxRunning is how many agents of contracts one principal may have at a time; 0 means 100.
	MaxRunning int `yaml:"max_running"`
	// Timeout is how long a contract may take; 0 means the server's task_timeout.
	Timeout time.Duration `yaml:"timeout"`
}

// DefaultMaxPayload is the largest payload when Config does not say, in bytes.
const DefaultMaxPayload = 16 << 20

// What holds where Config does not say.
const (
	DefaultKeep       = 24 * time.Hour
	DefaultMaxRunning = 100
)

// Validate says what is wrong with the configuration, by key.
func (c Config) Validate() error {
	switch {
	case c.MaxPayload < 0:
		return fmt.Errorf("lifecycle.max_payload is %d: it is a number of bytes", c.MaxPayload)
	case c.MaxRunning < 0:
		return fmt.Errorf("lifecycle.max_running is %d: use a positive number, or 0 for %d", c.MaxRunning, DefaultMaxRunning)
	case c.Timeout < 0:
		return fmt.Errorf("lifecycle.timeout is %s: it is more than 0, or 0 for the server's task_timeout", c.Timeout)
	case c.Project != "" && c.Driver != "":
		return fmt.Errorf("lifecycle.project is %q and lifecycle.driver %q: give one of the two", c.Project, c.Driver)
	case c.Driver == "command" && len(c.Command) == 0:
		return fmt.Errorf("lifecycle.command is empty: the driver command needs a program")
	}
	return nil
}

func (c Config) withDefaults() Config {
	if c.MaxPayload == 0 {
		c.MaxPayload = DefaultMaxPayload
	}
	if c.Keep == 0 {
		c.Keep = DefaultKeep
	}
	if c.MaxRunning == 0 {
		c.MaxRunning = DefaultMaxRunning
	}
	if c.Project == "" && c.Driver == "" {
		c.Driver = "claude"
		if c.Backend == "cagent" {
			c.Driver = "cagent"
		}
	}
	if c.Driver != "" && c.Backend == "" {
		c.Backend = "local"
		if c.Driver == "cagent" {
			c.Backend = "cagent"
		}
	}
	return c
}
