// Package driver describes the programs that do an agent's work: how to start each program on a task, and how to read
// the program's output.
//
// Package runner uses the drivers, and fleet.yaml chooses the driver of a project. A driver must never start a process
// or access a file: it returns the files that it needs in the run's directory, and package runner writes them.
package driver

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/runner/acp"
	"fleet/internal/runner/claude"
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

// Options configure a driver. If a comment begins with the name of a driver, the option is only for that driver.
type Options struct {
	Kind               string            // shell, claude, codex, acp or command
	Command            []string          // the program and its arguments; required for command and acp, optional for others
	Stdin              string            // command: template of the standard input; if empty, there is no input
	Output             string            // command: text or jsonl
	Fields             Fields            // command: paths in JSON lines
	Keys               []string          // environment variables that the program needs
	Env                map[string]string // acp: variables for the program
	Home               map[string]string // acp: initial files of the agent's home
	WaitsForNextMinute bool              // acp: a session cannot be resumed in the minute in which it was last used
	Tested             string            // acp: the version of the program with which Fleet was tested
}

// Kinds lists all kinds of drivers.
var Kinds = []string{"shell", "claude", "codex", "acp", "command"}

// New returns a driver, or an error that describes invalid options.
func New(o Options) (Driver, error) {
	if o.Kind != "command" && (o.Stdin != "" || o.Output != "" || o.Fields != (Fields{})) {
		return nil, fmt.Errorf("stdin, output and fields are options of the driver \"command\", not of %q", o.Kind)
	}
	switch o.Kind {
	case "shell":
		return newShell(o), nil
	case "claude":
		return newClaude(o), nil
	case "codex":
		return newCodex(o), nil
	case "acp":
		return newAgentClient(o)
	case "command":
		return newCommand(o)
	}
	return nil, fmt.Errorf("there is no driver %q: use one of %s", o.Kind, strings.Join(Kinds, ", "))
}

// Job is a task for a driver.
type Job struct {
	TaskID   string
	Agent    string
	Project  string
	Role     Role
	Spec     string
	Prompt   string
	RunDir   string    // absolute; directory of Command.Files
	Feedback string    // results of failed checks of the last run; empty if no check failed
	Session  string    // the conversation that the run continues; empty if the run starts a new conversation
	Since    time.Time // when Session was last used
	Lost     string    // why the agent's previous conversation cannot continue; empty if it can, or if the agent had none

	Brief       string            // what Fleet tells the agent, see fleet.Run
	Options     fleet.TaskOptions // see With
	Attachments []Attachment      // files of the task, in the run's directory

	Client   []string      // talks to the program; a protocol and a job file are appended
	Ask      []string      // runs question.Main; a verb is appended; if empty, the run cannot ask questions
	Confined bool          // Fleet confines the program
	OneTask  bool          // the agent gets only this task, so the conversation need not be stored
	Report   *fleet.Report // how the agent reports to Fleet; nil if the agent cannot report
}

// Attachment is a file of a task.
type Attachment struct {
	Path      string
	MediaType string
	Size      int
}

// Role is the part of an agent's role that concerns its driver.
type Role struct {
	Name            string
	Prompt          string
	Model           string
	Tools           []string // available tools; nil means the program's default
	AllowedTools    []string // tools that need no permission
	DisallowedTools []string
	PermissionMode  string
	MCPServers      map[string]MCPServer
	Permissions     *Permissions // if nil, the agent cannot ask, and tools that need a permission are denied
	Limits

	// Trust says whether Claude Code follows permissions.allow in the settings of the agent's repository. If it is nil, Fleet
	// leaves that to the program.
	Trust *bool
	// Sealed makes Claude Code ignore settings files in the agent's working directory.
	Sealed bool
	// ReplacesSystemPrompt means that the role and the specification replace the program's own system prompt. Otherwise they extend
	// that prompt.
	ReplacesSystemPrompt bool
}

// Permissions are rules for tool calls that need a permission. Deny is checked first, then Ask, then Allow, and the
// first list with a matching rule decides. If no rule matches, Fleet asks people. An agent with permissions can also
// ask questions.
type Permissions struct {
	Allow   []string      `yaml:"allow" json:"allow,omitempty"`     // rules for calls that Fleet allows
	Deny    []string      `yaml:"deny" json:"deny,omitempty"`       // rules for calls that Fleet denies
	Ask     []string      `yaml:"ask" json:"ask,omitempty"`         // rules for calls that people decide about
	Timeout time.Duration `yaml:"timeout" json:"timeout,omitempty"` // how long a question waits for its answer; 0 means DefaultAskTimeout
}

// DefaultAskTimeout is the default of Permissions.Timeout.
const DefaultAskTimeout = time.Hour

// QuestionTimeout returns how long a question waits for its answer.
func (p *Permissions) QuestionTimeout() time.Duration { return cmp.Or(p.Timeout, DefaultAskTimeout) }

// AskServer is the name of the MCP server that an agent uses to ask people.
const AskServer = claude.AskServer

// askServer returns the MCP server AskServer as a program of its own.
func askServer(j Job) MCPServer {
	return MCPServer{Type: "stdio", Command: j.Ask[0], Args: append(slices.Clone(j.Ask[1:]), "mcp")}
}

// Protocols of the client process between the supervisor and the program, see Job.Client.
const (
	ProtocolACP    = "acp"
	ProtocolClaude = "claude"
)

// MCPServer is a server with tools for the agent.
type MCPServer struct {
	Type    string            `json:"type,omitempty" yaml:"type"` // stdio, http or sse; empty means stdio
	Command string            `json:"command,omitempty" yaml:"command"`
	Args    []string          `json:"args,omitempty" yaml:"args"`
	Env     map[string]string `json:"env,omitempty" yaml:"env"`
	URL     string            `json:"url,omitempty" yaml:"url"`
	Headers map[string]string `json:"headers,omitempty" yaml:"headers"`
}

// Command describes how to start a program.
type Command struct {
	Argv        []string
	Env         map[string]string
	Files       []File // files to create in the run's directory before the start
	Starts      string // the agent's program, if Argv[0] is a helper that starts it; otherwise empty
	StdinFile   string // name of the file in Files that is the standard input; empty for no input
	Messages    bool   // the program reads messages while it works
	Mailbox     bool   // the program confirms messages, see package mailbox
	SplitStderr bool   // the output is structured, so stderr must not be mixed into it
	Requests    bool   // the output shows when a request to the model is active, so the run can be stopped between requests
	Finishes    bool   // if the supervisor is killed, the program ends by itself after SIGTERM, and SpentFile says what it has used
	Format      Format
}

// File is a file in the run's directory.
type File struct {
	Name       string
	Data       string
	Executable bool
	Secret     bool // the file is removed at the end of the run, or after the start if it is Command.StdinFile
}

// AllowanceFile is the name of the file with Run.Allowance in the run's directory. It is replaced while the run works. If it does not exist,
// the run may use as much as it wants.
const AllowanceFile = "allowance.json"

// SpentFile is the name of a file in FLEET_RUN_DIR. A program with Command.Finishes writes to it what the run has used so far, as a
// fleet.Outcome, before it writes the same to its output. So the last figures are known even if the supervisor is killed, and what
// is in the pipe to it is lost.
const SpentFile = "spent"

// Names of the files that every run has, for any program.
const (
	PromptFile = "prompt.md"
	SpecFile   = "spec.md"
	RoleFile   = "role.md"
	BriefFile  = "brief.md"
)

// BaseFiles returns the files that every run has.
func BaseFiles(j Job) []File {
	return []File{
		{Name: PromptFile, Data: j.Prompt},
		{Name: SpecFile, Data: j.Spec},
		{Name: RoleFile, Data: j.Role.Prompt},
		{Name: BriefFile, Data: fullInstructions(j)},
	}
}

func (j Job) path(name string) string { return filepath.Join(j.RunDir, name) }

// standingInstructions returns the instructions for all tasks of the agent: its role and its specification.
func standingInstructions(j Job) string {
	var parts []string
	if p := strings.TrimSpace(j.Role.Prompt); p != "" {
		parts = append(parts, p)
	}
	if s := strings.TrimSpace(j.Spec); s != "" && s != strings.TrimSpace(j.Role.Prompt) { // an agent's configuration may have the same text for both
		parts = append(parts, fmt.Sprintf("You are the agent %q. What you are there for:\n\n%s", j.Agent, s))
	}
	for _, more := range []string{j.Brief, j.Options.AppendSystemPrompt} {
		if s := strings.TrimSpace(more); s != "" {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, "\n\n")
}

// firstPrompt returns the first prompt of a conversation. If the agent's previous conversation was lost, the result
// begins with a note about that.
func firstPrompt(j Job, prompt string) string {
	if j.Lost == "" {
		return prompt
	}
	return acp.LostConversationNote + prompt
}

// fullInstructions returns all instructions in one text, for programs that accept only one.
func fullInstructions(j Job) string {
	s := standingInstructions(j)
	if s == "" {
		return j.Prompt
	}
	return s + "\n\nYour task now:\n\n" + j.Prompt
}

// MaxArgument is the maximum length of an argument of a program, in bytes (MAX_ARG_STRLEN on Linux, without the final
// NUL).
const MaxArgument = 128<<10 - 1

// checkArguments returns a helpful error for arguments that the operating system would refuse.
func checkArguments(argv []string, hint string) error {
	for i, a := range argv {
		if len(a) > MaxArgument {
			return fleet.Invalid(fleet.ReasonInvalidArgument, "task_description",
				"argument %d of %s would be %d bytes long, and the limit is %d: %s", i, argv[0], len(a), MaxArgument, hint)
		}
		if strings.ContainsRune(a, 0) {
			return fleet.Invalid(fleet.ReasonInvalidArgument, "task_description",
				"the text for %s contains a zero byte, which an argument of a program cannot contain: remove it", argv[0])
		}
	}
	return nil
}
