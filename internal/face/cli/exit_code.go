package cli

import "github.com/spf13/cobra"

// These are the exit codes of Run. The help topic exit-codes says more.
const (
	ExitOK          = 0
	ExitError       = 1 // any other error
	ExitUsage       = 2 // the command line is wrong
	ExitNotFound    = 3
	ExitConflict    = 4  // the agent is busy, or the name is taken
	ExitState       = 5  // the state does not allow the call, or a limit is reached
	ExitUnavailable = 6  // the server, its issuer, or the host of the agents, does not answer
	ExitDenied      = 7  // the caller is unknown, or may not make the call
	ExitFailed      = 8  // a task, or a request to an agent, failed
	ExitStopped     = 9  // a task was stopped
	ExitTimeout     = 10 // a time limit is over, or a task waits for an answer and --or-question was given
	ExitInterrupted = 130
)

const exitHelp = `Every command ends with one of these exit codes:

    0  it worked
    1  something else went wrong; the message says what
    2  the command line, or a value in it, cannot be used
    3  something does not exist: an agent, a task, a project, a role, a token, or a
       running task to stop
    4  conflict: the agent is busy, or the name is taken
    5  the state does not allow it: the agent is offline, or a limit is reached
    6  unavailable: the server, its issuer, or the host of the agents, does not answer
    7  the server does not know the caller, or does not allow this
    8  a task failed, or a request to an agent failed
    9  a task was stopped
   10  the time of --timeout or --wait is over, or a task waits for an answer and
       --or-question was given; tasks, and agents that start, continue
  130  interrupted with Ctrl-C; tasks continue

"task run --follow" and "task wait" end with 0 only if every task they waited for
has completed. If there are several errors, the first one decides the exit code.

An error is one line on standard error, "fleet: MESSAGE". With -o json or yaml
it is the object {"error": REASON, "message": ..., "details": ...}, where REASON
is one of the API's error reasons, or one of the command line's own: USAGE, FAILED,
UNREACHABLE, TASK_FAILED, TASK_STOPPED, TIMED_OUT, WAITING, INTERRUPTED.`

const exitExample = `  fleet task run papi "make test" --follow
  case $? in
    0) echo "green" ;;
    4) fleet task wait --agent papi ;;
    8) fleet task list papi ;;
  esac`

// newExitCodes returns the help topic "exit-codes".
func newExitCodes() *cobra.Command {
	return &cobra.Command{
		Use:   "exit-codes",
		Short: "Exit codes that scripts can use",
		Long:  exitHelp + "\n\nExample:\n" + exitExample,
	}
}
