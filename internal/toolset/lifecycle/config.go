package lifecycle

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"fleet/internal/fleet"
)

// Config configures the agents of contracts. The zero value uses the claude program of this machine.
type Config struct {
	// Place is the place of the agents. If it is empty, Fleet uses the first place with the driver, or the place of the
	// project.
	Place string `yaml:"backend"`
	// Driver runs the agents there, for example claude or command in the place local, or cagent in the place cagent. It must
	// be empty if Project is set.
	Driver string `yaml:"driver"`
	// Project and Role select a project of this machine or of Coder, and a role in it. If Project is set, each agent is
	// created there, like an agent of the fleet. A request can name another project and role.
	Project string `yaml:"project"`
	Role    string `yaml:"role"`
	// Model is the name of the model, as the driver's program knows it, or "provider/model" with cagent.
	Model string `yaml:"model"`
	// Command is the program and its arguments. It is for the driver command.
	Command []string `yaml:"command"`
	// Allow and Deny are the tools that the agents may and may not use. Without Allow, they may change files in their own
	// directory and run no programs.
	Allow []string `yaml:"allow"`
	Deny  []string `yaml:"deny"`
	// If Ask is not nil, the agents ask people before they use a tool that is neither in Allow nor in Deny. If it is nil,
	// they may not use such tools. The names in it are tools that the agents have in addition to Allow. AskTimeout is how
	// long a question waits for its answer; 0 means 1 h.
	Ask        []string      `yaml:"ask"`
	AskTimeout time.Duration `yaml:"ask_timeout"`
	// Document is a complete cagent document. If it is empty, the document is made from Model.
	Document string `yaml:"document"`
	// PassEnv names variables of the server's environment that the agents get, for example the key of the model's API.
	PassEnv []string `yaml:"pass_env"`
	// MaxPayload is the largest payload in bytes before compression; 0 means 16 MiB.
	MaxPayload int `yaml:"max_payload"`
	// Keep is how long the files of an ended agent without a repository are kept; 0 means 24 h, a negative value
	// deletes them at once.
	Keep time.Duration `yaml:"keep"`
	// MaxRunning is how many running agents of contracts one principal may have; 0 means 100.
	MaxRunning int `yaml:"max_running"`
	// Timeout limits the duration of a contract; 0 means the server's task_timeout.
	Timeout time.Duration `yaml:"timeout"`
}

// These are the defaults of the fields of Config with the same names.
const (
	DefaultMaxPayload = 16 << 20 // bytes
	DefaultKeep       = 24 * time.Hour
	DefaultMaxRunning = 100
)

// defaultDriver is the driver of agents if the configuration names neither a driver nor a project.
const defaultDriver = "claude"

// Validate returns an error that names the invalid key, or nil. drivers are the drivers of the places.
func (c Config) Validate(drivers []fleet.Driver) error {
	d, _ := fleet.Traits{Drivers: drivers}.Driver(cmp.Or(c.Driver, defaultDriver))
	switch {
	case c.MaxPayload < 0:
		return fmt.Errorf("lifecycle.max_payload is %d: use a positive number of bytes, or 0 for %d", c.MaxPayload, DefaultMaxPayload)
	case c.MaxRunning < 0:
		return fmt.Errorf("lifecycle.max_running is %d: use a positive number, or 0 for %d", c.MaxRunning, DefaultMaxRunning)
	case c.Timeout < 0:
		return fmt.Errorf("lifecycle.timeout is %s: it must be more than 0, or 0 for the server's task_timeout", c.Timeout)
	case c.Project != "" && c.Driver != "":
		return fmt.Errorf("lifecycle.project is %q and lifecycle.driver %q: give one of the two", c.Project, c.Driver)
	case c.AskTimeout < 0:
		return fmt.Errorf("lifecycle.ask_timeout is %s: it must be more than 0, or 0 for 1 h", c.AskTimeout)
	case c.Ask != nil && (c.Project != "" || c.Place != "" && c.Place != "local" || !d.Asks):
		return fmt.Errorf("lifecycle.ask is for a driver of this machine that can ask (%s): a project says in its roles what its agents may ask",
			strings.Join(fleet.DriverNames(drivers, func(d fleet.Driver) bool { return d.Asks }), ", "))
	case c.Driver != "" && d.NeedsCommand && len(c.Command) == 0:
		return fmt.Errorf("lifecycle.command is empty: the driver %s needs a program", c.Driver)
	}
	return nil
}

// withDefaults returns the configuration with defaults for its unset fields. t are the traits of Place.
func (c Config) withDefaults(t fleet.Traits) Config {
	c.MaxPayload = cmp.Or(c.MaxPayload, DefaultMaxPayload)
	c.Keep = cmp.Or(c.Keep, DefaultKeep)
	c.MaxRunning = cmp.Or(c.MaxRunning, DefaultMaxRunning)
	if c.Project == "" && c.Driver == "" {
		c.Driver = defaultDriver
		if _, ok := t.Driver(c.Driver); !ok && len(t.Drivers) > 0 {
			c.Driver = t.Drivers[0].Name
		}
	}
	return c
}

// withProject returns the configuration with the project and role that a request names. An empty project and role change
// nothing.
func (c Config) withProject(project, role string) (Config, error) {
	switch {
	case project != "":
		c.Place, c.Driver, c.Project, c.Role = "", "", project, role
	case role != "" && c.Project == "":
		return c, fleet.InvalidField("role", "role is %q and there is no project: name the project that has the role", role).Next("{list_agent_projects} shows the projects")
	case role != "":
		c.Role = role
	}
	return c, nil
}

// spec returns the system prompt as the spec of an agent that a project defines. It returns "" for other agents, because
// their configuration has the prompt.
func (c Config) spec(id string) string {
	if c.Driver != "" {
		return ""
	}
	return systemPrompt(id)
}
