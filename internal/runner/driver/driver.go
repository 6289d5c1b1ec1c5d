// Package driver knows the programs that do an agent's work: how to start each of them on a task, and how to read its
// output.
//
// Package runner calls it, and fleet.yaml chooses the driver of a project. A driver must never start a process or touch
// a file: it names the files that it needs in the run's directory, and package runner writes them.
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
)

// Driver starts one kind of program on tasks.
type Driver interface {
	// Program is the executable that must be found, as a path or a name on the PATH; empty when the task itself tells.
	Program() string

	// Keys names the environment variables of the server that the program needs to do its work: the keys of its model.
	// One that ends in "*" means all that begin so.
	Keys() []string

	// Command is how the program is started on the task. INVALID_ARGUMENT when it cannot be.
	Command(j Job) (Command, error)
}

// Options are what a project says about its driver.
type Options struct {
	Kind    string            // shell, claude, codex, acp or command
	Command []string          // the program and its arguments; the drivers command and acp need it, others have a default
	Stdin   string            // command: a template of what the program reads; none: empty input
	Output  string            // command: text or jsonl
	Fields  Fields            // command: where to look in JSON lines
	Keys    []string          // environment variables that the program needs
	Env     map[string]string // acp: variables that the program is started with
	Home    map[string]string // acp: files that a home of the agent's own has in the beginning
	Minutes bool              // acp: a session cannot be resumed in the minute in which it was last used
	Tested  string            // acp: the version of the program that Fleet was tested with
}

// Kinds are the drivers there are.
var Kinds = []string{"shell", "claude", "codex", "acp", "command"}

// New returns the driver of the kind, or an error in words when the options are not good.
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

// Job is a task as a driver sees it.
type Job struct {
	TaskID   string
	Agent    string
	Project  string
	Role     Role
	Spec     string
	Prompt   string
	RunDir   string    // absolute; what Command.Files names lies there
	Feedback string    // what checks found wrong with the run before; empty: nothing
	Session  string    // of the agent's conversation so far; empty when there is none
	Since    time.Time // when Session was last used
	Lost     string    // why the agent's conversation cannot go on, so that this is another one; empty when it can

	Helper   []string      // starts acp.Main, with the file of its job as one more argument; none: it cannot be started
	Ask      []string      // starts ask.Main in the run, with what to do as more arguments; none: the run asks nobody
	Confined bool          // Fleet confines the program
	OneTask  bool          // it is the agent's only task, so nobody will go on with its conversation
	Report   *fleet.Report // how the agent reaches Fleet; nil: it does not
}

// Role is what an agent's role says to its driver.
type Role struct {
	Name            string
	Prompt          string
	Model           string
	Tools           []string // the tools there are; nil: the program's own choice
	AllowedTools    []string // tools that need no permission
	DisallowedTools []string
	PermissionMode  string
	MCPServers      map[string]MCPServer
	Permissions     *Permissions // what it may ask for; nil: it asks nobody, and what needs a permission is denied

	// Sealed says that the role is all that holds: settings that lie where the agent works do not count.
	Sealed bool
	// Alone says that the prompt is all that the program is told about itself, instead of an addition to its own words.
	Alone bool
}

// Permissions say what happens when the agent needs a permission that its program does not have: the first of Deny, Ask and
// Allow that names the use of the tool counts. What none of them names is asked. An agent with permissions can also ask
// questions.
type Permissions struct {
	Allow   []string      `yaml:"allow" json:"allow,omitempty"`     // granted
	Deny    []string      `yaml:"deny" json:"deny,omitempty"`       // denied
	Ask     []string      `yaml:"ask" json:"ask,omitempty"`         // people are asked
	Timeout time.Duration `yaml:"timeout" json:"timeout,omitempty"` // how long a question waits for its answer; 0: DefaultAskTimeout
}

// DefaultAskTimeout is how long a question waits for its answer.
const DefaultAskTimeout = time.Hour

// Wait returns how long a question waits for its answer.
func (p *Permissions) Wait() time.Duration { return cmp.Or(p.Timeout, DefaultAskTimeout) }

// AskServer is the name of the MCP server by which an agent asks people.
const AskServer = "fleet-ask"

// askServer is that server; more are arguments for it.
func askServer(j Job, more ...string) MCPServer {
	argv := append(append(slices.Clone(j.Ask), "mcp"), more...)
	return MCPServer{Type: "stdio", Command: argv[0], Args: argv[1:]}
}

// MCPServer is a server whose tools the agent may use.
type MCPServer struct {
	Type    string            `json:"type,omitempty" yaml:"type"` // stdio, http or sse; empty: stdio
	Command string            `json:"command,omitempty" yaml:"command"`
	Args    []string          `json:"args,omitempty" yaml:"args"`
	Env     map[string]string `json:"env,omitempty" yaml:"env"`
	URL     string            `json:"url,omitempty" yaml:"url"`
	Headers map[string]string `json:"headers,omitempty" yaml:"headers"`
}

// Command is how a program is started.
type Command struct {
	Argv         []string
	Env          map[string]string
	Files        []File // to be made in the run's directory before
	Starts       string // the program that the first of Argv starts in its turn; empty: Argv is the agent's program
	StdinFile    string // one of them; none: empty input
	Messages     bool   // it reads messages while it works
	MessagesJSON bool   // each as a line with a JSON string
	SplitStderr  bool   // its output is for programs, so its errors must not be mixed in
	Requests     bool   // it says when it asks its model, in the way of Claude Code, so it can be stopped between two requests
	Format       Format
}

// File is a file in the run's directory.
type File struct {
	Name       string
	Data       string
	Executable bool
	Secret     bool // removed when the run has ended; StdinFile when it has begun
}

// Names of the files that every run has, for any program to use.
const (
	PromptFile = "prompt.md"
	SpecFile   = "spec.md"
	RoleFile   = "role.md"
	BriefFile  = "brief.md"
)

// BaseFiles are the files that every run has.
func BaseFiles(j Job) []File {
	return []File{
		{Name: PromptFile, Data: j.Prompt},
		{Name: SpecFile, Data: j.Spec},
		{Name: RoleFile, Data: j.Role.Prompt},
		{Name: BriefFile, Data: brief(j)},
	}
}

func (j Job) path(name string) string { return filepath.Join(j.RunDir, name) }

// standing is what holds for all tasks of the agent: its role and its specification.
func standing(j Job) string {
	var parts []string
	if p := strings.TrimSpace(j.Role.Prompt); p != "" {
		parts = append(parts, p)
	}
	if s := strings.TrimSpace(j.Spec); s != "" && s != strings.TrimSpace(j.Role.Prompt) { // a recipe may say both in one
		parts = append(parts, fmt.Sprintf("You are the agent %q. What you are there for:\n\n%s", j.Agent, s))
	}
	return strings.Join(parts, "\n\n")
}

// BeginsAnew says to people that a run has a new conversation, and why.
func BeginsAnew(why string) string { return "the conversation begins anew: " + why }

// begins is the first prompt of a conversation, which says so to an agent that had another one.
func begins(j Job, prompt string) string {
	if j.Lost == "" {
		return prompt
	}
	return acp.Lost + prompt
}

// brief is everything in one text, for programs that take only one.
func brief(j Job) string {
	s := standing(j)
	if s == "" {
		return j.Prompt
	}
	return s + "\n\nYour task now:\n\n" + j.Prompt
}

// MaxArgument is the longest argument a program can be given, in bytes (MAX_ARG_STRLEN on Linux, less the final zero).
const MaxArgument = 128<<10 - 1

// checkArguments refuses what the operating system would refuse without a word that helps.
func checkArguments(argv []string, hint string) error {
	for i, a := range argv {
		if len(a) > MaxArgument {
			return fleet.Invalid(fleet.ReasonInvalidArgument, "task_description",
				"argument %d of %s would be %d bytes long, and %d are the most: %s", i, argv[0], len(a), MaxArgument, hint)
		}
		if strings.ContainsRune(a, 0) {
			return fleet.Invalid(fleet.ReasonInvalidArgument, "task_description",
				"the text for %s has a zero byte in it, which no program can be given as an argument: leave it out", argv[0])
		}
	}
	return nil
}
