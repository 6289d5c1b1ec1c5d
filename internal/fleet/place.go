package fleet

import (
	"context"
	"io"
	"strings"
	"time"
)

// Place is where agents live. The reconciler calls it. A place has no rules about agents; what it needs to find its
// workspaces and runs after a crash, it keeps in the workspaces themselves.
//
// Every method returns promptly with the context's error when its context is done, and leaves things so that the same
// call can finish the job. Errors are *Error: BACKEND_UNAVAILABLE if the host does not answer, so that the caller
// retries; others if a retry does not help. Methods are safe for concurrent use. Calls for one agent come one at a
// time, except Interrupt and Send during Follow, and List at any time.
type Place interface {
	// Traits returns facts about the place. They never change.
	Traits() Traits

	// Projects lists what agents can work on, by name. No projects is not an error.
	Projects(ctx context.Context) ([]Project, error)

	// Roles lists the roles of the project with exactly this Project.Name, in the project's order, at least one.
	// PROJECT_NOT_FOUND if there is no such project.
	Roles(ctx context.Context, project string) ([]Role, error)

	// Provision makes the agent's workspace and returns it; the workspace may still be starting. Called again for the
	// same Agent.UID it returns the same workspace, even if the first call was interrupted after making it.
	// PROVISIONING_FAILED if it cannot be made now, AGENT_EXISTS if somebody else's workspace has the name.
	// INVALID_ARGUMENT, INVALID_NAME and the like if it can never be made for this agent; the agent is then given up.
	Provision(ctx context.Context, a Agent) (Workspace, error)

	// Start starts a stopped or failed workspace, with the agent's current role. It does nothing if the workspace runs
	// or starts.
	Start(ctx context.Context, a Agent) error

	// Stop stops a workspace and keeps its content; runs in it end. It does nothing if the workspace is stopped.
	Stop(ctx context.Context, a Agent) error

	// Delete destroys the workspace and ends what runs in it. After a nil error only kept is left of it: work that must
	// not be lost, named for people. A missing workspace is not an error.
	Delete(ctx context.Context, a Agent) (kept string, err error)

	// Inspect returns the state of one workspace. A missing workspace has StateDeleted and is not an error.
	Inspect(ctx context.Context, a Agent) (Workspace, error)

	// List returns all workspaces that host agents, including those that Fleet's store does not know. A problem with
	// one workspace does not fail the listing: the workspace is listed with what is known and a Reason. A workspace
	// without a Name is not adopted yet. If the Role is missing, Owner, Role and Spec are taken from a later listing.
	List(ctx context.Context) ([]Workspace, error)

	// Log returns the last lines of the workspace's log, at most n, oldest first, and whether there were more.
	Log(ctx context.Context, a Agent, n int) (lines []string, truncated bool, err error)

	// Connect returns the runner of the agent. It communicates with nobody; the runner's methods do.
	Connect(a Agent) Runner

	// Close ends the place's background work and waits for it. Workspaces and runs continue.
	Close() error
}

// Runner executes the runs of one agent. Its methods follow the rules of Place's methods. They are safe for concurrent
// use; calls for one agent come one at a time, except Interrupt and Send during Follow.
type Runner interface {
	// Dispatch gives the run to the agent and returns when the agent has it. A run with the same Run.TaskID is given
	// only once. A run that the agent begins by itself (Run.SelfStarted) is never given: Dispatch waits until the agent
	// has begun it, and returns TASK_NOT_FOUND if the agent does not. AGENT_OFFLINE if the workspace does not run;
	// AGENT_BUSY if the agent works on something else.
	Dispatch(ctx context.Context, r Run) error

	// Follow passes the run's output after cursor ("" is the beginning) to sink, in order, without gaps or repetitions,
	// until the run has ended, and returns how it ended. It waits as long as the run takes. If sink returns an error,
	// Follow returns it. Follow can be called again with the cursor of the last Output that sink accepted, at any time
	// after Dispatch, also by another process and long after the end of the run. TASK_NOT_FOUND if the agent was
	// certainly never given the run.
	Follow(ctx context.Context, r Run, cursor string, sink func(Output) error) (Outcome, error)

	// Interrupt asks the run, and a running check of it, to end; if kill is set, by force. It does not wait: Follow and
	// Check report the end. It is not an error if they have ended.
	Interrupt(ctx context.Context, r Run, kill bool) error

	// Send gives a message to a running run and returns when the agent has it. If the agent can accept it only later,
	// Send waits, and the run does not end meanwhile. A message with the same id is given only once, also by another
	// process, which knows from Run.Messages what the run has had. UNIMPLEMENTED if the agent accepts no messages while
	// it works; NO_RUNNING_TASK if the run has ended.
	Send(ctx context.Context, r Run, id, message string) error

	// Answer gives the run the answer to a question that Follow reported, identified by Question.LocalID, and returns
	// when the run has it. Only the first answer counts: a further one, even the same, changes nothing and is not an
	// error; Follow reports which answer the run got. QUESTION_CLOSED if the question expired or was withdrawn before,
	// QUESTION_NOT_FOUND if the run never asked it, NO_RUNNING_TASK if the run has ended. Answer is called only if
	// Traits.Asks is set.
	Answer(ctx context.Context, r Run, q Question) error

	// The methods below are called only if the place's Traits promise them. Otherwise they return UNIMPLEMENTED, unless
	// the runner supports them anyway.

	// Changes saves the agent's working tree for the run, including uncommitted changes, and returns what the run
	// changed since Dispatch. It is called after the run has ended. Called again, it saves the current tree. It returns
	// nil if the agent does not work in a repository. UNIMPLEMENTED for a workspace that does not support it,
	// AGENT_OFFLINE if the workspace has to run for that and does not.
	Changes(ctx context.Context, r Run) (*Changes, error)

	// Patch returns at most limit bytes of the patch from Base to Commit of a result of Changes, from the offset, for
	// one file if path is set, and whether there is more. It works as long as the place has the repository, which is
	// after Delete too if Traits.KeepsWork is set. CHANGES_NOT_FOUND if the place no longer has it, AGENT_OFFLINE if
	// the workspace has to run for that and does not.
	Patch(ctx context.Context, c Changes, path string, offset int64, limit int) (text []byte, more bool, err error)

	// Output returns a page of the run's raw output, at most limit bytes from the offset, or from so many bytes before the
	// end if the offset is negative. It works while the run is under way and after it has ended, as long as the runner
	// keeps the run, and can be called at any time. OUTPUT_NOT_FOUND if the runner no longer keeps the output,
	// TASK_NOT_FOUND if the agent was never given the run or nothing is left of it, UNIMPLEMENTED for a workspace that
	// does not support it, AGENT_OFFLINE if the workspace has to run for that and does not.
	Output(ctx context.Context, r Run, offset int64, limit int) (OutputPage, error)

	// Check executes the check's command in the agent's working tree after the run has ended, confined like the agent's
	// own programs, and returns the result. It waits for the command, which Check.Timeout limits even if nobody waits.
	// A command is executed once: called again with the same run and Check.ID, also by another process, Check waits for
	// the earlier execution or returns its result. It executes the command again only if the machine failed meanwhile.
	// The agent counts as busy until then. TASK_NOT_FOUND if the agent was never given the run, AGENT_OFFLINE if the
	// workspace does not run, AGENT_BUSY if the agent works on something else, UNIMPLEMENTED for a workspace that does
	// not support it.
	Check(ctx context.Context, r Run, c Check) (CheckResult, error)

	// Bundle writes the agent's work that exists nowhere else to w, as a git bundle: commits that no remote has, and
	// what Changes has saved. It writes nothing if there is nothing. If w returns an error, Bundle returns it.
	// UNIMPLEMENTED for a workspace that does not support it, AGENT_OFFLINE if the workspace has to run for that and
	// does not.
	Bundle(ctx context.Context, w io.Writer) error
}

// Traits are facts about a place.
type Traits struct {
	Name string
	// PollInterval is how often List is called while nothing changes; 0 means the reconciler's default.
	PollInterval time.Duration
	// StopGrace is how long a run may take to end after Interrupt before it is killed; 0 means the reconciler's
	// default.
	StopGrace time.Duration
	// StopEndsRuns means that stopping the workspace is a last resort to end a run that survived a kill.
	StopEndsRuns bool
	// Adopts means that listed workspaces that the store does not know are agents to be adopted.
	Adopts bool
	// Drivers are what AgentConfig.Driver can name; a place without drivers accepts no configurations.
	Drivers []Driver
	// TakesReport means that its agents can reach Fleet over the network as Run.Report says.
	TakesReport bool
	// Keeps means that Delete keeps files as AgentConfig.Keep says. The place is then a Tidier.
	Keeps bool
	// Asks means that its agents can ask questions: Follow reports them, and Answer answers them.
	Asks bool
	// Changes means that its runners support Changes and Patch.
	Changes bool
	// Output means that its runners support Output.
	Output bool
	// Checks means that its runners can run checks.
	Checks bool
	// ProjectChecks means that its projects and roles can have checks.
	ProjectChecks bool
	// Bundles means that its runners support Bundle.
	Bundles bool
	// KeepsWork means that the content of a bundle survives the workspace: Bundle writes the same after Delete.
	KeepsWork bool
	// UniqueNames means that the host has a single namespace for the agents of all owners.
	UniqueNames bool
}

// Driver is a driver of a place, with the facts about it that configurations depend on.
type Driver struct {
	Name string
	// Tools means that it holds its agent to AgentConfig.Allow and AgentConfig.Deny.
	Tools bool
	// LimitsTools means that AgentConfig.Allow has the names of Claude Code's tools, and that its agent has no others.
	LimitsTools bool
	// Asks means that it takes AgentConfig.Ask.
	Asks bool
	// MCPServers means that it gives its agent the configuration's MCP servers.
	MCPServers bool
	// Reports means that its agent can use Run.Report.
	Reports bool
	// Remembers means that the tasks of an agent are one conversation.
	Remembers bool
	// Scripts means that a task is a script that is executed, and not a text that is read.
	Scripts bool
	// NeedsCommand means that it starts the program of AgentConfig.Command, and has none of its own.
	NeedsCommand bool
	// AddsArguments means that AgentConfig.Command has more arguments for its program. Otherwise it replaces the program.
	AddsArguments bool
	// NeedsDocument means that its agents are defined by AgentConfig.Document.
	NeedsDocument bool
}

// Driver returns the driver of the name; ok is false if the place has none.
func (t Traits) Driver(name string) (d Driver, ok bool) {
	for _, d := range t.Drivers {
		if d.Name == name {
			return d, true
		}
	}
	return Driver{}, false
}

// DriverNames returns the names of the drivers.
func (t Traits) DriverNames() []string { return DriverNames(t.Drivers, nil) }

// DriverNames returns the names of the drivers for which is returns true; nil means all.
func DriverNames(drivers []Driver, is func(Driver) bool) (names []string) {
	for _, d := range drivers {
		if is == nil || is(d) {
			names = append(names, d.Name)
		}
	}
	return names
}

// Confiner is implemented by a place whose agents may run programs on a shared machine. Unconfined says why the agent's
// programs could reach what is not the agent's own, and what to do about it; empty means that they cannot.
type Confiner interface {
	Unconfined(a Agent) string
}

// Tidier is implemented by a place that keeps things for a limited time. Tidy removes expired ones. It is called
// periodically and retries what it could not remove.
type Tidier interface {
	Tidy(ctx context.Context, now time.Time) error
}

// Workspace is where an agent lives, as its place reports it.
type Workspace struct {
	ID       string
	State    State
	Reason   string // why the workspace is in this state, for people
	Location string // where it is, for people
	Metadata map[string]string

	// AgentUID is the agent that the workspace was made for; empty if the place does not know.
	AgentUID string
	// These are needed to adopt a workspace that the store does not know.
	Name, Owner, Project, Role, Spec string
	CreatedAt                        time.Time
}

// Offline returns AGENT_OFFLINE, with the reason, if the agent's workspace does not run.
func (w Workspace) Offline(agent string) error {
	if w.State == StateRunning {
		return nil
	}
	words := string(w.State)
	if w.Reason != "" {
		words += ": " + w.Reason
	}
	return Errorf(ReasonAgentOffline, "the agent %q cannot work, its workspace is %s", agent, words).With("state", string(w.State))
}

// Run is a task in the form in which its agent gets it.
type Run struct {
	TaskID  string
	Prompt  string
	Timeout time.Duration // the host ends the run by then, even if Fleet is down; always set
	Started time.Time
	Again   bool // an earlier Dispatch of this run may have been interrupted
	// SelfStarted means that the agent begins the run by itself: its project has Project.SpecIsTask set, and Prompt is
	// its spec.
	SelfStarted bool
	// Feedback is what checks found wrong with the previous run, when the agent has to try again. It is the next turn
	// of an agent that remembers, and is added to Prompt for others. Only Dispatch gets it.
	Feedback string
	// Continues means that the agent has a conversation that the run continues. A runner that has lost it, for example
	// with the agent's workspace, begins a new one and reports that with Output.ConversationLost.
	Continues bool
	// Messages are the messages that the run was given so far, oldest first. Follow and Send get them.
	Messages []Message
	// Linger is how long a running request to its model may take to end by itself when the run is interrupted and not
	// killed; 0 means no longer than the host allows anyway. Only Interrupt gets it.
	Linger time.Duration
	// Report is how an agent outside this process reports, if its AgentConfig says that it does; nil otherwise. Only
	// Dispatch gets it.
	Report *Report
}

// Output is a piece of a run's output. Without Text and Data it only shows progress.
type Output struct {
	Cursor string // position after it
	Step   bool   // a step of the agent (a tool that it used), not its text
	Text   string
	// Data is the step for programs, a JSON object with the "type" "tool_call" (id, name, arguments), "tool_result"
	// (id, name, result, is_error), "usage" (input_tokens, output_tokens), "warning" (message) or "text"; nil if the
	// place knows only the text. It can name one of several agents as "agent".
	Data []byte
	// Open is how many tool calls are running after it, if known: the run is not stalled while there are any.
	Open int
	// Terminal means that the text was read from the agent's terminal. Long lines may be broken, and the text may
	// contain parts of the screen.
	Terminal bool
	// ConversationLost says why the run began a new conversation although the agent had one; empty if it did not. Text
	// says it for people.
	ConversationLost string
	// Question is set, and the rest is not, if the agent has asked something or a question has changed. Its ID is the
	// runner's own. Status, Kind, Text, Tool, Input, Options, AskedAt and ExpiresAt are set, and for an answered
	// question Answer, Message, AnsweredBy and AnsweredAt. Each Follow reports all open questions of the run, whatever
	// its cursor, since the cursor does not count questions.
	Question *Question
}

// OutputPage is a part of a run's raw output, byte for byte.
type OutputPage struct {
	Data []byte
	// Offset is where Data begins. It is later than the requested one if bytes are missing there, and not after Size.
	Offset int64
	Size   int64 // how many bytes the run has put out so far, including the missing ones
	// GapOffset is where bytes of the whole output are missing, and GapSize how many; 0 means none. No Data contains the gap.
	GapOffset, GapSize int64
}

// Outcome is how a run ended.
type Outcome struct {
	Status       TaskStatus // completed, failed or stopped
	Reason       string     // why it failed; not empty then
	Summary      string     // the agent's report, for people
	Reported     bool       // the agent reported success or failure, with agent_complete or a marker
	Payload      []byte     // the complete result, byte for byte; nil if the run has none
	Gap          Gap        // where bytes of Payload are missing, if it exceeded its limit
	EndedAt      time.Time  // when the run ended; zero if its host does not know
	ExitCode     *int       // if the agent is a program
	CostUSD      float64
	Turns        int
	Usage        Usage
	ChecksFailed bool // the run completed, and its checks failed

	// Conversation means that the agent's next run continues the conversation of this one.
	Conversation bool
	Terminal     bool // Summary and Payload were read from the agent's terminal, as Output.Terminal says
}

// Usage is what a run has used of its model.
type Usage struct {
	Model                     string // as the model's provider calls it
	InputTokens, OutputTokens int64
	ToolCalls                 int
}

// PlaceOn returns the name of a place that is bound to the machine of one server: each server that shares a store has one of its
// own. replica names the server; "" if it shares the store with none.
func PlaceOn(kind, replica string) string {
	if replica == "" {
		return kind
	}
	return kind + "@" + replica
}

// ReplicaOf returns which server has the place of the name, and the name that the place has there without it. replica is "" for a
// place that every server reaches.
func ReplicaOf(place string) (kind, replica string) {
	kind, replica, _ = strings.Cut(place, "@")
	return kind, replica
}
