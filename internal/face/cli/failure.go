package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/face/wire"
)

// failure is an error as the command line reports it, with the exit code of the program.
type failure struct {
	code       int
	reason     string // one of the API's error reasons, or one of those that the help topic exit-codes lists
	message    string
	hint       string // what to do next; may be empty
	details    map[string]any
	apiMessage string // the API's message; printed instead of message in JSON and YAML output
}

func (f *failure) Error() string {
	if f.hint == "" {
		return f.message
	}
	if strings.HasSuffix(f.message, "?") {
		return f.message + " " + upperFirst(f.hint)
	}
	return strings.TrimSuffix(f.message, ".") + "; " + f.hint
}

// Fail returns an error with which Run returns the exit code. The hint says what to do next and may be empty.
func Fail(code int, hint, format string, args ...any) error {
	return &failure{code: code, reason: "FAILED", message: fmt.Sprintf(format, args...), hint: hint}
}

// usagef returns an error about the command line.
func usagef(format string, args ...any) error {
	return &failure{code: ExitUsage, reason: "USAGE", message: fmt.Sprintf(format, args...)}
}

// errInterrupted is the cancellation cause of a command's context after Ctrl-C or SIGTERM.
var errInterrupted = &failure{code: ExitInterrupted, reason: "INTERRUPTED", message: "interrupted", hint: "the server may still carry out the request"}

// errTimeout is the cancellation cause of a command's context after --timeout.
var errTimeout = &failure{
	code: ExitTimeout, reason: "TIMED_OUT", message: "no answer within the time given with --timeout", hint: "the server may still carry out the request",
}

// explain converts any error of a command into a failure. t is the target that the command talked to.
func (p *program) explain(ctx context.Context, err error, t Target) *failure {
	return p.explainIn(ctx, err, t, nil)
}

// explainIn does the same as explain for an error of a method of the toolset. set is nil for other commands.
func (p *program) explainIn(ctx context.Context, err error, t Target, set *toolset) *failure {
	var f *failure
	if errors.As(err, &f) {
		return f
	}
	if ctx != nil && ctx.Err() != nil && (isContextStatus(err) || errors.Is(err, ctx.Err())) {
		if errors.As(context.Cause(ctx), &f) {
			return f
		}
	}
	if ctx != nil && status.Code(err) == codes.DeadlineExceeded {
		if _, hasDeadline := ctx.Deadline(); hasDeadline { // the server noticed the deadline slightly before this program
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
	if reasonOf(err) == "" && (s.Code() == codes.Unavailable || strings.Contains(s.Message(), "unexpected content-type")) {
		return newUnreachableError(s.Message(), t)
	}
	w := wire.ErrorOf(err)
	next, message := p.commandsFor(set).nextStep(s, w.Message, w.Details)
	return &failure{code: exitCode(w.Reason, s.Code()), reason: w.Reason, message: p.translateForPeople(set, message, w.Details), hint: hintFor(w, next), details: w.Details, apiMessage: w.Message}
}

// isContextStatus reports whether err is the status of a call whose context was cancelled or had a deadline that has passed.
func isContextStatus(err error) bool {
	c := status.Code(err)
	return c == codes.Canceled || c == codes.DeadlineExceeded
}

// reasonOf returns the reason that Fleet gives for a failed call. It returns "" if the error is not from Fleet, for example because the
// connection broke.
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

// isInvalid reports whether the server refuses the call because of the field.
func isInvalid(err error, field string) bool {
	return reasonOf(err) == fleetv1.ErrorReason_INVALID_ARGUMENT.String() && wire.ErrorOf(err).Details["field"] == field
}

// newUnreachableError returns the failure for a server that cannot be reached. message is the message of grpc-go, which ends with the system's error.
func newUnreachableError(message string, t Target) *failure {
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
	case strings.Contains(message, "certificate signed by unknown authority"):
		f.message = t.Server + " has a certificate of an authority that this machine does not trust"
		f.hint = "give the authority's certificate with --ca-file FILE"
	case strings.Contains(message, "certificate required") && t.ClientCert != "":
		f.message = t.Server + " does not accept the certificate in " + t.ClientCert
		f.hint = "give one of an authority that the server trusts (tls.client_ca)"
	case strings.Contains(message, "certificate required"):
		f.message = t.Server + " wants a client certificate"
		f.hint = "give it with --client-cert and --client-key"
	case strings.Contains(message, "x509: "):
		f.message = "the certificate of " + t.Server + " cannot be trusted: " + certificateProblem(message)
		f.hint = "name the server as in its certificate, or let its operator renew the certificate"
	case strings.Contains(message, "does not look like a TLS handshake"):
		f.hint = "if that server has no TLS, add --insecure"
	case !t.isPlaintext() && t.ClientCert == "" && (strings.Contains(message, "broken pipe") || strings.Contains(message, "connection reset by peer")):
		// With TLS 1.3, a server that requires a client certificate rejects a client without one only after the client
		// has finished the handshake. The connection may then break before the client has read the reason.
		f.hint = "if the server wants a client certificate, give it with --client-cert and --client-key"
	case strings.Contains(message, "server preface") && t.isPlaintext():
		f.message = t.Server + " does not answer as a gRPC server without TLS"
		f.hint = fmt.Sprintf("if it speaks TLS, name it as https://%s; the port of gRPC is %s by default", t.Server, defaultPort)
	case strings.Contains(message, "server preface"), strings.Contains(message, "unexpected content-type"):
		f.message = t.Server + " does not answer as a gRPC server"
		f.hint = fmt.Sprintf("give the server's gRPC address, which has the port %s by default", defaultPort)
	default:
		f.hint = `is a server running? Start one with "fleet serve", or add --embedded`
	}
	return f
}

// certificateProblem returns what is wrong with a certificate, from the error of package x509.
func certificateProblem(message string) string {
	_, problem, _ := strings.Cut(message, "x509: ")
	return strings.TrimRight(problem, `"`)
}

// exitCode returns the exit code that the proto assigns to the reason. If it assigns none, the gRPC code decides.
func exitCode(reason string, code codes.Code) int {
	reasons := fleetv1.ErrorReason(0).Descriptor().Values()
	if exit := valueOption(reasons.ByName(protoreflect.Name(reason))).GetExitCode(); exit != 0 {
		return int(exit)
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

// hintFor returns advice about an error: the server's next step, or advice that only the command line can give.
func hintFor(e wire.Error, next string) string {
	retryAfter, ok := e.Details["retry_after_seconds"]
	switch {
	case e.Reason == fleetv1.ErrorReason_UNAUTHENTICATED.String():
		return `sign in with "fleet login", or give a token with --token-file FILE or FLEET_TOKEN; "fleet token create" makes one`
	case next == "" && ok:
		return fmt.Sprintf("try again in %v s", retryAfter)
	}
	return next
}
