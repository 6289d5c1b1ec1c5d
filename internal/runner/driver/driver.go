// Package driver describes the programs that do an agent's work: how to start each program on a task, and how to read
// the program's output.
//
// Package runner uses the drivers, and fleet.yaml chooses the driver of a project. A driver must never start a process
// or access a file: it returns the files that it needs in the run's directory, and package runner writes them.
package driver

import (
	"fmt"
	"strings"
)

// Driver describes one kind of program.
type Driver interface {
	// Program returns the required executable, as a path or a name in PATH. It is empty if each task names its own
	// program.
	Program() string

	// Keys returns patterns of the server's environment variables that the program needs, usually the API keys of its
	// model. A trailing "*" matches any suffix.
	Keys() []string

	// Command returns how to start the program for the task. If the driver does not support an option of the job,
	// Command returns INVALID_ARGUMENT.
	Command(j Job) (Command, error)
}

// HomeFilesDriver is a driver whose program needs files in the agent's home.
type HomeFilesDriver interface {
	// HomeFiles returns the contents of the files by their path in the home. Existing files are not changed.
	HomeFiles() map[string]string
}

// ModesDriver is a driver that knows the permission modes of its program.
type ModesDriver interface {
	// Modes returns the values of Role.PermissionMode that the program accepts.
	Modes() []string
}

// Options configure a driver. If a comment begins with the name of a driver, the option is only for that driver.
type Options struct {
	Kind               string            // shell, claude, codex, acp or command
	Command            []string          // the program and its arguments; required for command and acp, optional for others
	Stdin              string            // command: template of the standard input; if empty, there is no input
	Output             string            // command: text or jsonl
	Fields             Fields            // command: paths in JSON lines
	Keys               []string          // acp, command: what Driver.Keys returns
	Env                map[string]string // acp: variables for the program
	Home               map[string]string // acp: initial files of the agent's home
	WaitsForNextMinute bool              // acp: a session cannot be resumed in the minute in which it was last used
	TestedVersion      string            // acp: the version of the program that Fleet was tested with
}

// Kinds lists the kinds of drivers that New can return.
var Kinds = []string{"shell", "claude", "codex", "acp", "command"}

// New returns a driver, or an error that describes invalid options.
func New(o Options) (Driver, error) {
	if o.Kind != "command" && (o.Stdin != "" || o.Output != "" || o.Fields != (Fields{})) {
		return nil, fmt.Errorf("stdin, output and fields are options of the driver \"command\", not of %q", o.Kind)
	}
	switch o.Kind {
	case "shell":
		return shell{commandOr(o, "bash", "-e")}, nil
	case "claude":
		return claudeCode{commandOr(o, "claude")}, nil
	case "codex":
		return codex{commandOr(o, "codex")}, nil
	case "acp":
		return newACPDriver(o)
	case "command":
		return newCommandDriver(o)
	}
	return nil, fmt.Errorf("there is no driver %q: use one of %s", o.Kind, strings.Join(Kinds, ", "))
}

// commandOr returns the command of the options, or the default command if the options have none.
func commandOr(o Options, defaultCommand ...string) []string {
	if len(o.Command) > 0 {
		return o.Command
	}
	return defaultCommand
}

// Protocols of the client process between the supervisor and the program, see Job.ClientCommand.
const (
	ProtocolACP    = "acp"
	ProtocolClaude = "claude"
)

// AllowanceFile is the name of the file with fleet.Run.Allowance in the run's directory. It is replaced while the run works. If it does not
// exist, the run has no limit.
const AllowanceFile = "allowance.json"

// UsageFile is the name of a file in FLEET_RUN_DIR. A program with Command.EndsOnSIGTERM writes to it what the run has used so
// far, as a fleet.Outcome, before it writes the same to its output. So the last figures are known even if the supervisor is
// killed and the data in the pipe to it is lost.
const UsageFile = "spent"

// Names of the files that every run has, for any program.
const (
	PromptFile = "prompt.md"
	SpecFile   = "spec.md"
	RoleFile   = "role.md"
	BriefFile  = "brief.md" // the standing instructions and the prompt; not only Job.Brief
)
