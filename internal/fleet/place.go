package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"time"
)

// Place is where agents live. The reconciler calls it. A place has no rules about agents. It keeps in the workspaces
// themselves whatever it needs to find its workspaces and runs after a crash.
//
// Every method returns promptly with the context's error when its context is done. The same call can then be repeated to
// finish the work. Errors are *Error: BACKEND_UNAVAILABLE if the host does not answer, so that the caller retries; others
// if a retry does not help. If the host identifies its callers, the place checks before each request that the host still
// takes it for the same caller, because another caller may see other workspaces, or none. If the host takes it for another
// caller, every method fails with ErrOtherIdentity. Methods are safe for concurrent use. The methods for one agent are called
// one at a time, except that Interrupt and Send may be called during Follow, and List and Inspect at any time.
type Place interface {
	// Traits returns facts about the place. They never change.
	Traits() Traits

	// Projects lists the projects that agents can work on, by name. An empty list is not an error.
	Projects(ctx context.Context) ([]Project, error)

	// Roles lists the roles of the project with exactly this Project.Name, in the project's order, at least one.
	// PROJECT_NOT_FOUND if there is no such project.
	Roles(ctx context.Context, project string) ([]Role, error)

	// Provision creates the agent's workspace and returns it. The workspace may still be starting. Another call for the
	// same Agent.UID returns the same workspace, even if the first call was interrupted. The error is PROVISIONING_FAILED if
	// the workspace cannot be created now, and AGENT_EXISTS if somebody else's workspace has the name. It is
	// INVALID_ARGUMENT, INVALID_NAME or the like if the workspace can never be created; the caller then does not retry.
	Provision(ctx context.Context, a Agent) (Workspace, error)

	// Start starts a stopped or failed workspace, with the changes in Agent.Next. Everything else stays as it is at the
	// host. Start does nothing if the workspace runs or starts.
	Start(ctx context.Context, a Agent) error

	// Stop stops a workspace and keeps its content; runs in it end. It does nothing if the workspace is stopped.
	Stop(ctx context.Context, a Agent) error

	// Delete destroys the workspace and ends the runs in it. kept describes, for people, the work that Delete has kept
	// because it must not be lost. Nothing else is left of the workspace after a nil error. A missing workspace is not an
	// error. If the host does not show the workspace, and does not say that it was deleted, kept says so.
	Delete(ctx context.Context, a Agent) (kept string, err error)

	// Inspect returns the state of one workspace. StateDeleted means that the host says of this workspace that it was
	// deleted, or that the agent never had one. A workspace that the host merely does not show has Missing set.
	Inspect(ctx context.Context, a Agent) (Workspace, error)

	// List returns all workspaces that host agents, including those that Fleet's store does not know. The caller must not
	// conclude that a workspace was deleted because it is not listed. A problem with one workspace does not fail the listing:
	// the workspace is listed with a Reason and the fields that are known. A workspace without a Name is not adopted yet. If
	// the Role is missing, Owner, Role and Spec are taken from a later listing.
	List(ctx context.Context) ([]Workspace, error)

	// Log returns the last lines of the workspace's log, at most n, oldest first, and whether there were more.
	Log(ctx context.Context, a Agent, n int) (lines []string, truncated bool, err error)

	// Connect returns the runner of the agent. It sends no request; the runner's methods do.
	Connect(a Agent) Runner

	// Close ends the place's background work and waits for it. Workspaces and runs continue.
	Close() error
}

// Runner executes the runs of one agent. Its methods follow the rules of Place's methods. They are safe for concurrent
// use; calls for one agent come one at a time, except Interrupt and Send during Follow.
type Runner interface {
	// Dispatch gives the run to the agent and returns when the agent has received it. The agent gets a run with the same
	// Run.TaskID only once. An agent begins a run with Run.SelfStarted by itself: Dispatch then waits until the agent has
	// begun it, and returns TASK_NOT_FOUND if the agent does not. The error is AGENT_OFFLINE if the workspace does not run,
	// and AGENT_BUSY if the agent works on something else.
	Dispatch(ctx context.Context, r Run) error

	// Follow passes the run's output after cursor ("" is the beginning) to sink, in order, without gaps or repetitions,
	// until the run has ended, and returns how it ended. It waits as long as the run takes. If sink returns an error,
	// Follow returns it. Follow can be called again with the cursor of the last Output that sink accepted, at any time
	// after Dispatch, also by another process and long after the end of the run. The error is TASK_NOT_FOUND if the agent
	// has certainly never received the run.
	Follow(ctx context.Context, r Run, cursor string, sink func(Output) error) (Outcome, error)

	// Interrupt asks the run, and a running check of it, to end. If kill is set, it ends them by force. It does not wait:
	// Follow and Check report the end. It is not an error if they have already ended.
	Interrupt(ctx context.Context, r Run, kill bool) error

	// Send delivers a message to a running run and returns when the agent has received it. If the agent can accept it only
	// later, Send waits, and the run does not end meanwhile. The agent gets a message with the same id only once, also from
	// different processes: each knows from Run.Messages which messages the run has received. The error is UNIMPLEMENTED if
	// the agent accepts no messages while it works, and NO_RUNNING_TASK if the run has ended.
	Send(ctx context.Context, r Run, id, message string) error

	// Answer delivers the answer to a question that Follow has reported, identified by Question.LocalID, and returns when
	// the run has received it. Only the first answer counts. A further answer changes nothing and is not an error; Follow
	// reports which answer the run got. The error is QUESTION_CLOSED if the question has expired or was withdrawn,
	// QUESTION_NOT_FOUND if the run never asked it, and NO_RUNNING_TASK if the run has ended. Answer is called only if
	// Traits.Asks is set.
	Answer(ctx context.Context, r Run, q Question) error

	// The methods below are called only if the place's Traits promise them. Otherwise they return UNIMPLEMENTED, unless
	// the runner supports them anyway.

	// Changes saves the agent's working tree for the run, including uncommitted changes, and returns what the run
	// changed since Dispatch. It is called after the run has ended. Called again, it saves the current tree. It returns
	// nil if the agent does not work in a repository. UNIMPLEMENTED for a workspace that does not support it,
	// AGENT_OFFLINE if the workspace has to run for that and does not.
	Changes(ctx context.Context, r Run) (*Changes, error)

	// Compare returns which files and lines differ between two commits of results of Changes: a Changes with Base, Commit, FileChanges
	// and the numbers of files and lines. It works as long as Patch does, and has the same errors.
	Compare(ctx context.Context, base, commit string) (*Changes, error)

	// Patch returns a part of the patch from Base to Commit of a result of Changes or Compare: at most limit bytes from the offset, and
	// whether there is more. If path is set, the patch is that of one file. Patch works as long as the place has the
	// repository; if Traits.KeepsWork is set, also after Delete. The error is CHANGES_NOT_FOUND if the place no longer has
	// the repository, and AGENT_OFFLINE if the workspace has to run for that and does not.
	Patch(ctx context.Context, c Changes, path string, offset int64, limit int) (text []byte, more bool, err error)

	// Output returns a page of the run's raw output: at most limit bytes from the offset. A negative offset counts from the
	// end. Output can be called at any time, during the run and after it, as long as the runner keeps the run. The error is
	// OUTPUT_NOT_FOUND if the runner no longer keeps the output, TASK_NOT_FOUND if the agent never received the run or
	// nothing is left of it, UNIMPLEMENTED for a workspace that does not support it, and AGENT_OFFLINE if the workspace has
	// to run for that and does not.
	Output(ctx context.Context, r Run, offset int64, limit int) (OutputPage, error)

	// Check executes the check's command in the agent's working tree after the run has ended, confined like the agent's
	// own programs, and returns the result. It waits for the command, which Check.Timeout limits even if nobody waits.
	// A command is executed once: another call with the same run and Check.ID, also from another process, waits for the
	// earlier execution or returns its result. Check executes the command again only if the machine failed meanwhile. The
	// agent counts as busy until the command ends. The error is TASK_NOT_FOUND if the agent never received the run,
	// AGENT_OFFLINE if the workspace does not run, AGENT_BUSY if the agent works on something else, and UNIMPLEMENTED for a
	// workspace that does not support checks.
	Check(ctx context.Context, r Run, c Check) (CheckResult, error)

	// Bundle writes a git bundle of the agent's work that exists nowhere else to w: commits that no remote has, and commits
	// that Changes has made. It writes nothing if there is no such work. If w returns an error, Bundle returns it. The error
	// is UNIMPLEMENTED for a workspace that does not support it, and AGENT_OFFLINE if the workspace has to run for that and
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
	// Adopts means that a listed workspace becomes an agent if the store has no agent for it.
	Adopts bool
	// Drivers are the drivers that AgentConfig.Driver can name. A place without drivers accepts no configurations.
	Drivers []Driver
	// ReachesFleet means that its agents can reach Fleet at the address in Run.FleetEndpoint.
	ReachesFleet bool
	// FleetURL is the address of Fleet's MCP endpoints for its agents, if they do not reach it at the server's own address.
	FleetURL string
	// KeepsFiles means that Delete keeps files as AgentConfig.KeepFilesFor says. The place is then a Tidier.
	KeepsFiles bool
	// Asks means that its agents can ask questions: Follow reports them, and Answer answers them.
	Asks bool
	// SupportsChanges means that its runners support Changes and Patch.
	SupportsChanges bool
	// SupportsOutput means that its runners support Output.
	SupportsOutput bool
	// SupportsChecks means that its runners can run checks.
	SupportsChecks bool
	// HasProjectChecks means that its projects and roles can have checks.
	HasProjectChecks bool
	// SupportsBundles means that its runners support Bundle.
	SupportsBundles bool
	// KeepsWork means that a bundle's content survives the workspace: Bundle writes the same content after Delete.
	KeepsWork bool
	// KeepsVersions means that the place is a Versioner.
	KeepsVersions bool
	// CallsKeepAwake means that the host counts calls about a workspace as its use, and stops workspaces that nobody uses. So Fleet makes no
	// such calls regularly.
	CallsKeepAwake bool
	// UniqueNames means that the host has a single namespace for the agents of all owners.
	UniqueNames bool
}

// Driver is a driver of a place, with the facts about it that configurations depend on.
type Driver struct {
	Name string
	// EnforcesTools means that it holds its agent to AgentConfig.Allow and AgentConfig.Deny.
	EnforcesTools bool
	// LimitsTools means that AgentConfig.Allow has the names of Claude Code's tools, and that its agent has no other tools.
	LimitsTools bool
	// Asks means that it supports AgentConfig.Ask.
	Asks bool
	// SupportsMCPServers means that it gives its agent the configuration's MCP servers.
	SupportsMCPServers bool
	// ReachesFleet means that its agent can use Run.FleetEndpoint.
	ReachesFleet bool
	// Remembers means that the tasks of an agent are one conversation.
	Remembers bool
	// RunsScripts means that a task is a script that is executed, and not a text that is read.
	RunsScripts bool
	// NeedsCommand means that it starts the program of AgentConfig.Command, and has none of its own.
	NeedsCommand bool
	// AddsArguments means that AgentConfig.Command has additional arguments for the driver's own program. Otherwise the
	// command replaces that program.
	AddsArguments bool
	// NeedsDocument means that its agents are defined by AgentConfig.Document.
	NeedsDocument bool
}

// Driver returns the driver with the name. ok is false if the place has no such driver.
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

// DriverNames returns the names of the drivers for which matches returns true. If matches is nil, it returns all names.
func DriverNames(drivers []Driver, matches func(Driver) bool) (names []string) {
	for _, d := range drivers {
		if matches == nil || matches(d) {
			names = append(names, d.Name)
		}
	}
	return names
}

// Confiner is implemented by a place whose agents may run programs on a shared machine. Unconfined says why the agent's
// programs could reach files and processes of others, and what to do about it. It is empty if they cannot.
type Confiner interface {
	Unconfined(a Agent) string
}

// Versioner is implemented by a place whose workspaces keep the version of their project with which they were made, until
// Start is told to update them (NextStart.Update).
type Versioner interface {
	// CheckStart checks, before a workspace is stopped, whether it can be started again as Agent.Next says. It changes
	// nothing, may be called at any time, and returns the exact name of the role that the workspace will have. ROLE_NOT_FOUND
	// if the version has no such role, INVALID_ARGUMENT if it does not accept the agent's parameters or needs more of them.
	CheckStart(ctx context.Context, a Agent) (role string, err error)
}

// Tidier is implemented by a place that keeps things for a limited time. Tidy removes expired things. It is called
// periodically, and tries again to remove what it could not remove before.
type Tidier interface {
	Tidy(ctx context.Context, now time.Time) error
}

// Keeper is implemented by a place whose Delete keeps the workspace for a while if work in it may exist nowhere else. Start
// brings the workspace of a deleted agent back.
type Keeper interface {
	// Kept returns the kept workspaces, oldest first. If uid is not empty, it returns only that of the agent with the uid.
	Kept(ctx context.Context, uid string) ([]KeptWork, error)
}

// Credentialer is implemented by a place that knows which keys or subscriptions its agents use for their models.
type Credentialer interface {
	// Credential names the credential of the project's agents. It is empty if they have none, or if it is not known. It
	// sends no request.
	Credential(project string) string
}

// CostLimiter is implemented by a place whose projects and roles can limit the cost of a task.
type CostLimiter interface {
	// MaxCost returns the cost limit of a task of the project's role whose caller sets no limit; 0 if there is none, or if it is
	// not known. It sends no request.
	MaxCost(project, role string) Micros
}

// Delegator is implemented by a place whose roles can let agents delegate tasks.
type Delegator interface {
	// Grant returns what agents with the role in the project may delegate, with all defaults; nil: nothing.
	Grant(project, role string) *Grant
}

// Examiner is implemented by a place that knows better than Runner.Bundle which work exists only in a workspace.
type Examiner interface {
	// Unsaved describes, for people, the work of the agent that may exist only in its workspace. It is empty only if it is
	// proved that there is no such work. It is called while the agent has no task. UNIMPLEMENTED means that only
	// Runner.Bundle knows.
	Unsaved(ctx context.Context, a Agent) (what string, err error)
}

// Workspace is where an agent lives, as its place reports it.
type Workspace struct {
	ID       string
	State    State
	Reason   string // why the workspace is in this state, for people
	Location string // where it is, for people
	Metadata map[string]string
	Host     HostFacts
	// Missing means that the host does not show the workspace to the place, and does not say that it was deleted. The State
	// is then StateUnhealthy.
	Missing bool
	// MissingSince is when the host stopped showing the workspace; zero if nobody can ask the host. Only the core sets it.
	MissingSince time.Time

	// AgentUID is the agent that the workspace was made for; empty if the place does not know.
	AgentUID string
	// These are needed to adopt a workspace that the store does not know.
	Name, Owner, Project, Role, Spec string
	CreatedAt                        time.Time
	// FleetUnknown means that the place has not yet read who owns the workspace.
	FleetUnknown bool
	// RoleUnknown means that the host does not say the role, and that Role is the default for an adopted agent.
	RoleUnknown bool
}

// ErrOtherIdentity is in the chain of a place's error if the host takes the place for another caller than before, for example
// because its token was replaced. The place does nothing until an operator has decided which caller it is.
var ErrOtherIdentity = errors.New("the place asks as another caller than before")

// CheckRunning returns AGENT_OFFLINE, with the reason, if the agent's workspace does not run.
func (w Workspace) CheckRunning(agent string) error {
	if w.State == StateRunning {
		return nil
	}
	state := string(w.State)
	if w.Reason != "" {
		state += ": " + w.Reason
	}
	return Errorf(ReasonAgentOffline, "the agent %q cannot work, its workspace is %s", agent, state).With("state", string(w.State))
}

// Allower is a Runner whose programs keep within Run.Allowance, even while nobody watches them.
type Allower interface {
	// Allow replaces the allowance of a run. It does nothing if the run has ended or was never received.
	Allow(ctx context.Context, r Run) error
}

// Allow replaces the allowance of the run, if the runner knows of allowances.
func Allow(ctx context.Context, runner Runner, r Run) error {
	if a, ok := runner.(Allower); ok {
		return a.Allow(ctx, r)
	}
	return nil
}

// Run is a task, or one try of it, in the form that its agent gets.
type Run struct {
	TaskID  string
	Prompt  string
	Timeout time.Duration // the host ends the run by then, even if Fleet is down; always set
	Started time.Time
	Again   bool // an earlier Dispatch of this run may have been interrupted by a crash
	// SelfStarted means that the agent begins the run by itself: its project has Project.SpecIsTask set, and Prompt is
	// its spec.
	SelfStarted bool
	// Options are options of the task for the agent's program. The place supports them, see Optioner. Only Dispatch gets them.
	Options TaskOptions
	// Attachments are files of the task, which the agent can read until the run ends. Only Dispatch gets them.
	Attachments []Attachment
	// Feedback describes the failed checks of the previous run if the agent has to try again. If the agent remembers its
	// conversation, Feedback is the next turn; otherwise it is added to Prompt. Only Dispatch gets it.
	Feedback string
	// Continues means that the agent has a conversation that the run continues. A runner that has lost it, for example
	// with the agent's workspace, begins a new one and reports that with Output.ConversationLost.
	Continues bool
	// Allowed are rules for calls that people have allowed before, see AllowedRule. Only Dispatch gets them.
	Allowed []string
	// Messages are the messages that the run has received so far, oldest first. Follow and Send get them.
	Messages []Message
	// Confirmed means that the message is only for a program that confirms what it reads. For another program, Send returns
	// UNIMPLEMENTED. Only Send gets it.
	Confirmed bool
	// Conversation names the conversation that the run continues, or begins if the agent has none of that name. If it is empty,
	// the run continues the one conversation of all runs without a name. Only Dispatch gets it.
	Conversation string
	// Brief is a text of Fleet itself for the agent, for example about how to delegate tasks. It belongs to the instructions. A
	// program that takes no instructions does not get it. Only Dispatch gets it.
	Brief string
	// Linger is how long an interrupted run may wait for the response to a request to its model; 0 means the host's default.
	// A run that is killed does not wait. Only Interrupt gets it.
	Linger time.Duration
	// Allowance limits the money and the tokens that the run uses; zero: no limit. When a program that knows the allowance has
	// used it up, it begins no request to its model and waits for Allower.Allow. Only Dispatch and Allow get it.
	Allowance Amount
	// FleetEndpoint is how an agent outside this process reaches Fleet, to report its result, to run subagents or to delegate
	// tasks; nil if it does none of that. Only Dispatch gets it.
	FleetEndpoint *ServerEndpoint
}

// Output is a piece of a run's output. An Output without Text and Data only shows that the run makes progress.
type Output struct {
	Cursor string // position after it
	Step   bool   // a step of the agent (a tool that it used), not its text
	Text   string // valid UTF-8 without NUL: the runner repairs what an agent writes, and no later code does
	// Data is the same for programs: the JSON form of a Step; nil if the place has only the text.
	Data []byte
	// Open is the number of tool calls that are running after this output; 0 if it is not known. A run with running tool
	// calls is not stalled.
	Open int
	// Terminal means that the text was read from the agent's terminal. Long lines may be broken, and the text may
	// contain parts of the screen.
	Terminal bool
	// ConversationLost says why the run began a new conversation although the agent had one; empty if it did not. Text says
	// the same for people.
	ConversationLost string
	// Question is set if the agent has asked a question or a question has changed. All other fields are then empty. The
	// question's ID is the runner's. Status, Kind, Text, Tool, Input, Options, AskedAt and ExpiresAt are set; if the question
	// was answered, also Answer, Message, AnsweredBy and AnsweredAt. Each Follow reports all open questions of the run,
	// whatever its cursor, because the cursor does not count questions.
	Question *Question
}

// OutputPage is a part of a run's raw output, byte for byte.
type OutputPage struct {
	Data []byte
	// Offset is where Data begins. It is greater than the requested offset if the bytes there are missing, and at most Size.
	Offset int64
	Size   int64 // how many bytes the run has written so far, including the missing bytes
	// GapOffset is the offset of the missing bytes, and GapSize is their number; 0 means that no bytes are missing. Data is
	// either before or after the gap.
	GapOffset, GapSize int64
}

// Outcome is how a run ended.
type Outcome struct {
	Status   TaskStatus // completed, failed or stopped
	Reason   string     // why it failed; not empty then
	Summary  string     // the agent's report, for people
	Reported bool       // the agent reported success or failure, with agent_complete or a marker
	Payload  []byte     // the complete result, byte for byte; nil if the run has none
	Gap      Gap        // where bytes of Payload are missing, if it exceeded its limit
	EndedAt  time.Time  // when the run ended; zero if its host does not know
	ExitCode *int       // if the agent is a program
	CostUSD  float64
	// CostPartial means that CostUSD lacks the last requests, because the program was killed before it reported them.
	CostPartial bool
	Turns       int
	Usage       Usage
	ReasonCode  ReasonCode // why it failed, for programs
	RetryAt     time.Time  // when the cause of the failure ends; zero if that is not known
	// Output is the JSON value that the agent returned if the run has TaskOptions.OutputSchema; nil if it returned none. It may
	// violate the schema.
	Output json.RawMessage `json:",omitempty"`

	// Conversation means that the agent's next run continues the conversation of this one.
	Conversation bool
	SessionID    string // the conversation's id, as the agent's program knows it; empty if it is not known
	Terminal     bool   // Summary and Payload were read from the agent's terminal, as Output.Terminal says
}

// Usage counts the tokens and the tool calls of a run.
type Usage struct {
	Model                     string // as the model's provider calls it
	InputTokens, OutputTokens int64
	ToolCalls                 int
}

// PlaceOn returns the name of a place that is bound to the machine of one server. Each of several servers that share a
// store has its own place of the kind. replica names the server; it is empty if only one server uses the store.
func PlaceOn(kind, replica string) string {
	if replica == "" {
		return kind
	}
	return kind + "@" + replica
}

// SplitPlace splits the name of a place into the kind and the name of its server. server is empty for a place that every
// server reaches.
func SplitPlace(place string) (kind, server string) {
	kind, server, _ = strings.Cut(place, "@")
	return kind, server
}
