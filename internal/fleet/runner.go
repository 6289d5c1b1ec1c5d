package fleet

import (
	"context"
	"io"
)

// Runner executes the runs of one agent. Its methods follow the rules of Place's methods. They are safe for concurrent
// use. Dispatch, Changes and Check for one agent are called one at a time. Interrupt, Send and Answer are also called during
// Follow, Interrupt also during Check, and Compare, Patch, Output and Bundle at any time.
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

	// Compare returns what differs between two commits, each the Commit of a result of Changes. The result has Base, Commit,
	// FileChanges and the numbers of files and lines. Compare works as long as Patch does, and has the same errors.
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

// AllowanceSetter is implemented by a Runner whose programs keep within Run.Allowance, even while Fleet does not follow them.
type AllowanceSetter interface {
	// SetAllowance replaces the allowance of a run with r.Allowance. It does nothing if the run has ended or was never received.
	SetAllowance(ctx context.Context, r Run) error
}

// SetAllowance replaces the allowance of the run if the runner is an AllowanceSetter. Otherwise it does nothing.
func SetAllowance(ctx context.Context, runner Runner, r Run) error {
	if a, ok := runner.(AllowanceSetter); ok {
		return a.SetAllowance(ctx, r)
	}
	return nil
}
