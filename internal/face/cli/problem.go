package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"

	"fleet/internal/face/wire"
)

// failure is an error that says how the program ends because of it.
type failure struct {
	code    int
	reason  string
	message string
	hint    string
	details map[string]any
	api     string // the message as the API gave it, for programs
}

// Error is the message with the hint.
func (f *failure) Error() string {
	if f.hint == "" {
		return f.message
	}
	return strings.TrimSuffix(f.message, ".") + "; " + f.hint
}

// Fail returns an error that ends the program with the exit code. The hint says what to do next; it may be empty.
func Fail(code int, hint, format string, args ...any) error {
	return &failure{code: code, reason: "FAILED", message: fmt.Sprintf(format, args...), hint: hint}
}

// usagef returns an error about the command line.
func usagef(format string, args ...any) error {
	return &failure{code: ExitUsage, reason: "USAGE", message: fmt.Sprintf(format, args...)}
}

// errInterrupted is why the context of a command is done after Ctrl-C.
var errInterrupted = &failure{code: ExitInterrupted, reason: "INTERRUPTED", message: "interrupted", hint: "what was asked for may go on"}

// errTimeout is why the context of a command is done after --timeout.
var errTimeout = &failure{
	code: ExitTimeout, reason: "TIMED_OUT", message: "no answer within the time given with --timeout", hint: "what was asked for may go on",
}

// explain turns any error into one that says how the program ends, for the target that the command talked to.
func explain(ctx context.Context, err error, t Target) *failure { return explainIn(ctx, err, t, nil) }

// explainIn is as explain, for an error of a toolset's method.
func explainIn(ctx context.Context, err error, t Target, set *toolset) *failure {
	var own *failure
	if errors.As(err, &own) {
		return own
	}
	if ctx != nil && ctx.Err() != nil && (isDone(err) || errors.Is(err, ctx.Err())) {
		if errors.As(context.Cause(ctx), &own) {
			return own
		}
	}
	if ctx != nil && status.Code(err) == codes.DeadlineExceeded {
		if _, limited := ctx.Deadline(); limited { // the server was a moment ahead of this program's clock
			return errTimeout
		}
	}
	s, ok := status.FromError(err)
	if !ok {
		if errors.Is(err, context.Canceled) {
			return errInterrupted
		}
		return &failure{code: ExitError, reason: "FAILED", message: err.Error()}
	}
	if reasonOf(err) == "" && s.Code() == codes.Unavailable {
		return unreachable(s.Message(), t)
	}
	w := wire.ErrorOf(err)
	next := set.hint(w)
	return &failure{
		code: exitCode(w.Reason, s.Code()), reason: w.Reason, message: inCommands(w.Message, next, set), hint: next, details: w.Details, api: w.Message,
	}
}

// isDone says whether err is a call's way of saying that its context is done.
func isDone(err error) bool {
	c := status.Code(err)
	return c == codes.Canceled || c == codes.DeadlineExceeded
}

// reasonOf returns the reason that Fleet itself gave for a failed call, and "" when the call failed on the way.
func reasonOf(err error) string {
	s, ok := status.FromError(err)
	if !ok {
		return ""
	}
	for _, d := range s.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok && info.GetDomain() == wire.Domain {
			return info.GetReason()
		}
	}
	return ""
}

// unreachable says in plain words that there is no connection. grpc-go's own words end with what the system said.
func unreachable(message string, t Target) *failure {
	f := &failure{code: ExitUnavailable, reason: "UNREACHABLE", details: map[string]any{"server": t.Server}}
	cause := strings.TrimRight(message, `"`)
	if i := strings.LastIndex(cause, ": "); i >= 0 {
		cause = cause[i+2:]
	}
	if t.Embedded {
		return &failure{code: ExitUnavailable, reason: "UNREACHABLE", message: "the embedded instance does not answer: " + cause}
	}
	f.message = fmt.Sprintf("cannot reach %s: %s", t.Server, cause)
	switch {
	case strings.Contains(message, "handshake"):
		f.hint = "if that server has no TLS, add --insecure"
	case strings.Contains(message, "server preface"):
		f.hint = fmt.Sprintf("is this the server's gRPC port? It is %s unless the server was told otherwise", defaultPort)
	default:
		f.hint = `is a server running? Start one with "fleet serve", or add --embedded`
	}
	return f
}

// exitCode chooses the exit code by the reason, which says more than the code.
func exitCode(reason string, code codes.Code) int {
	switch {
	case strings.HasSuffix(reason, "_NOT_FOUND"), reason == "NO_RUNNING_TASK":
		return ExitNotFound
	case strings.HasSuffix(reason, "_EXISTS"), reason == "AGENT_BUSY":
		return ExitConflict
	}
	switch code {
	case codes.InvalidArgument, codes.OutOfRange:
		return ExitUsage
	case codes.NotFound:
		return ExitNotFound
	case codes.AlreadyExists, codes.Aborted:
		return ExitConflict
	case codes.FailedPrecondition, codes.ResourceExhausted:
		return ExitState
	case codes.Unavailable:
		return ExitUnavailable
	case codes.Unauthenticated, codes.PermissionDenied:
		return ExitDenied
	case codes.DeadlineExceeded:
		return ExitTimeout
	}
	return ExitError
}

// hint says what to type next after an error of a toolset's method: what is not there, a list of the toolset may have
// under another name. The agents and tasks that others know are not the toolset's.
func (t *toolset) hint(e wire.Error) string {
	noun, missing := strings.CutSuffix(e.Reason, "_NOT_FOUND")
	if t == nil || !missing {
		return hint(e)
	}
	m, _ := t.list(func(list protoreflect.FieldDescriptor) bool {
		name := singular(string(list.Name()))
		return name == strings.ToLower(noun) || noun == "AGENT" && string(list.Name()) == t.name
	})
	if m == nil || strings.Contains(inCommandsOf(e.Message, t), strconv.Quote(m.line())) { // which says it itself
		return ""
	}
	return fmt.Sprintf("%q shows what there is", m.line())
}

// hint says what to type next after an error of the API.
func hint(e wire.Error) string {
	of := func(key, otherwise string) string {
		if v, ok := e.Details[key].(string); ok && v != "" {
			return v
		}
		return otherwise
	}
	agent := of("agent_name", "AGENT")
	switch e.Reason {
	case "AGENT_NOT_FOUND":
		return `"fleet agent list" shows the agents`
	case "TASK_NOT_FOUND":
		return `"fleet task list" shows the tasks`
	case "PROJECT_NOT_FOUND":
		return `"fleet project list" shows the projects`
	case "ROLE_NOT_FOUND":
		return fmt.Sprintf(`"fleet role list %s" shows the roles`, of("project", "PROJECT"))
	case "TOKEN_NOT_FOUND":
		return `"fleet token list" shows the tokens`
	case "AGENT_EXISTS":
		return fmt.Sprintf(`choose another name, or "fleet agent delete %s" first`, agent)
	case "TOKEN_EXISTS":
		return "choose another name"
	case "AGENT_BUSY":
		return fmt.Sprintf(`wait with "fleet task wait --agent %s", or stop the task with "fleet task stop %s"`, agent, agent)
	case "AGENT_OFFLINE":
		return fmt.Sprintf(`"fleet agent show %s" says why; "fleet agent start %s" starts it`, agent, agent)
	case "NO_RUNNING_TASK":
		return fmt.Sprintf(`"fleet task list %s" shows what it did`, agent)
	case "UNAUTHENTICATED":
		return "give a token with --token-file FILE or FLEET_TOKEN"
	case "BACKEND_UNAVAILABLE", "LIMIT_REACHED":
		if after, ok := e.Details["retry_after_seconds"]; ok {
			return fmt.Sprintf("try again in %v s", after)
		}
	}
	return ""
}
