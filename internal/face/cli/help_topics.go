package cli

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// These are the exit codes of Run.
const (
	ExitOK          = 0
	ExitError       = 1
	ExitUsage       = 2
	ExitNotFound    = 3
	ExitConflict    = 4
	ExitState       = 5
	ExitUnavailable = 6
	ExitDenied      = 7
	ExitFailed      = 8
	ExitStopped     = 9
	ExitTimeout     = 10
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
    6  unavailable: the server, or the host of the agents, does not answer
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

const environmentHelp = `Flags take precedence over the environment:

  FLEET_SERVER       HOST:PORT or https://HOST:PORT of the server, like --server
  FLEET_TOKEN        the token that identifies you; there is no flag for it, because
                     other users can see command lines
  FLEET_TOKEN_FILE   a file with the token, like --token-file
  FLEET_CA_FILE      a file with the certificate authorities to trust, like --ca-file
  FLEET_CLIENT_CERT  a file with your certificate, like --client-cert
  FLEET_CLIENT_KEY   a file with your certificate's private key, like --client-key
  FLEET_DATA         the data directory of an embedded instance, like --data
  NO_COLOR           use no colours if it is set, like --no-color`

// newFlags returns the help topic "flags", about the flags of all commands.
func newFlags(all *pflag.FlagSet) *cobra.Command {
	return &cobra.Command{Use: "flags", Short: "Flags of all commands", Long: "All commands have these flags:\n\n" + strings.TrimRight(all.FlagUsages(), "\n")}
}

// newEnvironment returns the help topic "environment".
func newEnvironment() *cobra.Command {
	return &cobra.Command{Use: "environment", Short: "Environment variables", Long: environmentHelp}
}

func (p *program) newVersion() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version of this program",
		Long:    `Print the version of this program, and what it lacks because of how it was built. It needs no server.`,
		Example: `  fleet version`,
		RunE: func(*cobra.Command, []string) error {
			platform := runtime.GOOS + "/" + runtime.GOARCH
			if p.output.forPeople() {
				text := p.deps.Version
				if !p.quiet {
					text = fmt.Sprintf("fleet %s (%s, %s)", p.deps.Version, runtime.Version(), platform)
					if p.deps.Lacks != "" {
						text += "\nlacks: " + p.deps.Lacks
					}
				}
				_, err := fmt.Fprintln(p.deps.Stdout, text)
				return err
			}
			body, err := json.Marshal(struct {
				Version  string `json:"version"`
				Go       string `json:"go"`
				Platform string `json:"platform"`
				Lacks    string `json:"lacks"`
			}{p.deps.Version, runtime.Version(), platform, p.deps.Lacks})
			if err != nil {
				return err
			}
			text, err := p.output.document(body)
			if err != nil {
				return err
			}
			_, err = fmt.Fprint(p.deps.Stdout, text)
			return err
		},
	}
}
