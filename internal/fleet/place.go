package fleet

import (
	"context"
	"time"
)

// Place is where agents live. The reconciler calls it; it decides nothing, and keeps what it must know to find its
// workspaces and runs again after a crash in the workspaces themselves.
//
// Every method returns promptly when its context is done, with the context's error, leaving things so that the same
// call again finishes the job. Errors are *Error: BACKEND_UNAVAILABLE when the host does not answer (the caller tries
// again), others when trying again will not help. Methods are safe for concurrent use; calls for one agent come one
// at a time, except Interrupt and Send during Follow, and List at any time.
type Place interface {
	// Traits are facts about the place. They do not change.
	Traits() Traits

	// Projects lists what agents can work on, by name; none is no error.
	Projects(ctx context.Context) ([]Project, error)

	// Roles lists the roles of the project (Project.Name, exactly), in the project's own order, at least one.
	// PROJECT_NOT_FOUND when there is no such project.
	Roles(ctx context.Context, project string) ([]Role, error)

	// Provision makes the agent's workspace and returns it; it may still be starting then. Called again for the same
	// Agent.UID it returns the same workspace, also when the first call was cut off after it was made.
	// PROVISIONING_FAILED when it cannot be made now; AGENT_EXISTS when a workspace of somebody else has the name, and
	// INVALID_ARGUMENT, INVALID_NAME and the like when it can never be made of the agent as it is: the agent is given up then.
	Provision(ctx context.Context, a Agent) (Workspace, error)

	// Start starts a workspace that is stopped or failed, with the agent's role as it is now. A workspace that runs or
	// starts is left alone.
	Start(ctx context.Context, a Agent) error

	// Stop stops a workspace and keeps what is in it; runs in it end. A stopped one is left alone.
	Stop(ctx context.Context, a Agent) error

	// Delete destroys the workspace and ends what runs in it. When it returns nil, nothing of it is left but what
	// kept names for people: work that was not to be lost. A workspace that is gone is no error.
	Delete(ctx context.Context, a Agent) (kept string, err error)

	// Inspect tells how one workspace is now. A workspace that is gone is StateDeleted, not an error.
	Inspect(ctx context.Context, a Agent) (Workspace, error)

	// List tells how all workspaces are that host agents, also those that Fleet's store does not know. What concerns one
	// workspace does not fail the listing of others: it is listed with what is known and a Reason. Without a Name it is
	// not taken in yet; without a Role, its Owner, Role and Spec are taken from a later listing.
	List(ctx context.Context) ([]Workspace, error)

	// Log returns the last lines of the workspace's log, at most n, oldest first, and whether there were more.
	Log(ctx context.Context, a Agent, n int) (lines []string, truncated bool, err error)

	// Connect returns the runner of the agent. It asks nobody: the methods of the runner do.
	Connect(a Agent) Runner

	// Close ends what the place does in the background, and waits for it. Workspaces and runs go on.
	Close() error
}

// Runner is how the runs of one agent happen. Its methods keep the rules of Place's, and are safe for concurrent use:
// calls for one agent come one at a time, except Interrupt and Send during Follow.
type Runner interface {
	// Dispatch hands the run to the agent and returns when the agent has it. A run that the agent was already given
	// (same Run.TaskID) is not given again. One that the agent begins by itself (Run.SelfStarted) is never given: Dispatch
	// waits until the agent has begun it, and returns TASK_NOT_FOUND when the agent does not.
	// AGENT_OFFLINE when the workspace does not run; AGENT_BUSY when the agent works on something else.
	Dispatch(ctx context.Context, r Run) error

	// Follow calls sink with what the run puts out after cursor ("" is its beginning), in order, without gaps or
	// repeats, until the run has ended, and returns how it ended. It waits as long as the run takes. When sink
	// returns an error, Follow returns that error. It can be called again, with the cursor of the last Output that
	// sink took, any time after Dispatch, also by another process, also when the run has long ended.
	// TASK_NOT_FOUND when the agent was certainly never given the run.
	Follow(ctx context.Context, r Run, cursor string, sink func(Output) error) (Outcome, error)

	// Interrupt asks the run to end, by force when kill is set. It does not wait: Follow tells when the run has ended.
	// A run that has ended is no error.
	Interrupt(ctx context.Context, r Run, kill bool) error

	// Send gives a message to a run that is under way, and returns when the agent has it. An agent that can only take it
	// later is waited for, and the run does not end meanwhile. A message of the same id is not given to the run again,
	// also by another process, which is told in Run.Messages what the run has by then.
	// UNIMPLEMENTED when the agent cannot take messages while it works; NO_RUNNING_TASK when the run has ended.
	Send(ctx context.Context, r Run, id, message string) error

	// Answer gives the run the answer to a question that Follow told of, which it knows by Question.LocalID, and returns
	// when the run has it. The first answer counts: another one, also the same again, is no error and changes nothing;
	// Follow tells what the run was told. QUESTION_CLOSED if the question expired or was withdrawn before,
	// QUESTION_NOT_FOUND if the run never asked it, NO_RUNNING_TASK if the run has ended, UNIMPLEMENTED where
	// Traits.Asks is not set.
	Answer(ctx context.Context, r Run, q Question) error

	// Changes keeps the tree that the agent works in as it is now, committed or not, for the run, and returns what the run
	// changed since it was dispatched. It is called when the run has ended. Called again, it does the same with the tree
	// as it is then. Nil when the agent does not work in a repository.
	// UNIMPLEMENTED unless Traits.Changes is set.
	Changes(ctx context.Context, r Run) (*Changes, error)

	// Patch returns at most limit bytes of the patch from Base to Commit of what Changes returned, from the offset on, of
	// one file when path is set, and whether there is more. It works as long as the place has the repository, also when
	// the workspace does not run or is deleted. CHANGES_NOT_FOUND when the place has it no more.
	Patch(ctx context.Context, c Changes, path string, offset int64, limit int) (text []byte, more bool, err error)
}

// Traits are facts about a place.
type Traits struct {
	Name string
	// PollInterval is how often List is asked when nothing moves; 0 means the reconciler's default.
	PollInterval time.Duration
	// StopGrace is how long a run gets to end after Interrupt before it is killed; 0 means the reconciler's default.
	StopGrace time.Duration
	// StopEndsRuns says that stopping the workspace is a last resort that ends a run that survived a kill.
	StopEndsRuns bool
	// Adopts says that workspaces which List shows and the store does not know are agents to be taken in.
	Adopts bool
	// Drivers are what an agent's Recipe can name as its Driver; a place without any takes no recipes.
	Drivers []string
	// TakesReport says that its agents can reach Fleet over the network as Run.Report says.
	TakesReport bool
	// Keeps says that Delete keeps files as Recipe.Keep says. The place is a Tidier then.
	Keeps bool
	// Asks says that its agents can ask questions: Follow tells of them, and Answer answers them.
	Asks bool
	// Changes says that its runners can tell what a run changed: Changes and Patch.
	Changes bool
	// UniqueNames says that the host has one space of names for the agents of all owners.
	UniqueNames bool
}

// Confiner is a place whose agents may run programs beside what other people have. Unconfined says why programs of the
// agent could reach what is not the agent's own, and what to do about it; empty: they cannot.
type Confiner interface {
	Unconfined(a Agent) string
}

// Tidier is a place that keeps things for a limited time. Tidy removes those whose time is over; it is called now and
// then, and what it cannot remove it tries again.
type Tidier interface {
	Tidy(ctx context.Context, now time.Time) error
}

// Workspace is where an agent lives, as its backend sees it.
type Workspace struct {
	ID       string
	State    State
	Reason   string // why the state is what it is, in words
	Location string // where it is, for people
	Metadata map[string]string

	// AgentUID is the agent that the workspace was provisioned for; empty when the place cannot tell.
	AgentUID string
	// What adoption needs, of a workspace that the store does not know.
	Name, Owner, Project, Role, Spec string
	CreatedAt                        time.Time
}

// Run is a task as its agent gets it.
type Run struct {
	TaskID  string
	Prompt  string
	Timeout time.Duration // the agent's host ends the run by then, also when Fleet is down; always set
	Started time.Time
	Again   bool // Dispatch may have been called before for this run, and been cut off
	// SelfStarted says that the agent begins the run by itself: it is in a project whose Project.SpecIsTask is set, and
	// Prompt is its spec.
	SelfStarted bool
	// Messages are those that the run was given so far, oldest first. Follow and Send get them.
	Messages []Message
	// Linger is how long a request to its model that is under way gets to end by itself when the run is interrupted and
	// not killed; 0: no longer than the host gives it anyway. Only Interrupt gets it.
	Linger time.Duration
	// Report is how an agent outside this process reports, where its Recipe says that it does; nil otherwise. Only
	// Dispatch gets it.
	Report *Report
}

// Output is something a run put out. One without Text and Data says that the run makes progress.
type Output struct {
	Cursor string // position after it
	Step   bool   // a step the agent took (a tool it used), not text it wrote
	Text   string
	// Data is the step for programs, a JSON object whose "type" is "tool_call" (id, name, arguments), "tool_result" (id,
	// name, result, is_error), "usage" (input_tokens, output_tokens) or "warning" (message), or of text "text"; nil when the
	// backend knows no more than the text. Each can name the one of several agents that did it, as "agent".
	Data []byte
	// Open is how many calls of tools are under way after it, where the backend knows: the run is not stalled while they are.
	Open int
	// Question is set, and the rest is not, when the agent has asked something, or something has become of
	// what it asked. Its ID is the runner's own; Status, Kind, Text, Tool, Input, Options, AskedAt and ExpiresAt are set,
	// and of one that was answered Answer, Message, AnsweredBy and AnsweredAt. Each Follow tells of all questions of the
	// run that are open, whatever its cursor, since these are not part of what the cursor counts.
	Question *Question
}

// Outcome is how a run ended.
type Outcome struct {
	Status   TaskStatus // completed, failed or stopped
	Reason   string     // why it failed; never empty then
	Summary  string     // what the agent reported, for people
	Reported bool       // the agent itself said that its task is done or has failed, by agent_complete or a marker
	Payload  []byte     // its result in full, byte for byte; nil when the run has none
	Gap      Gap        // where bytes of Payload are missing, when it was longer than its limit
	EndedAt  time.Time  // when the run ended; zero when its host does not know
	ExitCode *int       // where the agent is a program
	CostUSD  float64
	Turns    int
	Usage    Usage
}

// Usage is what a run has used of its model.
type Usage struct {
	Model                     string // as the model's provider calls it
	InputTokens, OutputTokens int64
	ToolCalls                 int
}
