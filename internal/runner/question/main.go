package question

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

const usage = `Lets an agent's program ask the people who look after the agent. Fleet or $FLEET_ASK starts this command.

  permission TOOL [INPUT]    prints allow or deny, and the message of the answer; exit code 0 if allowed
  question TEXT [OPTION...]  prints the answer, and its message; exit code 1 if nobody answers in time
  mcp                        serves the tool ask_user over MCP
`

// Main executes the verb args[1] in the run with the directory args[0], and returns the exit code.
func Main(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	return runVerb(ctx, args, os.Stdin, os.Stdout, os.Stderr)
}

// runVerb is Main with the given context and streams.
func runVerb(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) >= 2 && args[1] == "mcp" {
		if err := NewServer(args[0]).Serve(ctx, stdin, stdout); err != nil {
			fmt.Fprintln(stderr, err)
			return 1
		}
		return 0
	}
	if len(args) < 3 {
		fmt.Fprint(stderr, usage)
		return 2
	}
	q := Question{}
	switch args[1] {
	case "permission":
		q.Kind, q.Tool = KindPermission, args[2]
		if len(args) > 3 {
			if q.Input = json.RawMessage(args[3]); !json.Valid(q.Input) {
				fmt.Fprintln(stderr, "the input of the tool must be JSON")
				return 2
			}
		}
	case "question":
		q.Kind, q.Text, q.Options = KindText, args[2], args[3:]
	default:
		fmt.Fprint(stderr, usage)
		return 2
	}
	a, err := Ask(ctx, args[0], q)
	switch {
	case err != nil:
		fmt.Fprintln(stderr, "asking failed:", err)
		return 1
	case q.Kind == KindText && a.Status != Answered:
		fmt.Fprintln(stderr, a.Reason())
		return 1
	case q.Kind == KindText || a.Allowed():
		fmt.Fprintln(stdout, a.Answer)
		if a.Message != "" {
			fmt.Fprintln(stdout, a.Message)
		}
		return 0
	}
	fmt.Fprintf(stdout, "%s\n%s\n", Deny, a.Reason())
	return 1
}
