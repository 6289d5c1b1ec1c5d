package rpc

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/fleet"
)

// Authenticator tells who a caller is.
type Authenticator interface {
	// Authenticate returns the principal of the call with this metadata, or an UNAUTHENTICATED error.
	Authenticate(ctx context.Context, md metadata.MD) (fleet.Principal, error)
}

// Interceptor is what happens around every call, whichever face it came through: the caller is identified, a panic
// becomes an INTERNAL error, core errors become statuses, and the call is logged.
type Interceptor struct {
	Auth Authenticator
	Log  *slog.Logger
}

// Unary is the interceptor of unary calls.
func (i Interceptor) Unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (resp any, err error) {
	err = i.around(ctx, info.FullMethod, func(ctx context.Context) (err error) {
		if err := checkEnums(req); err != nil {
			return err
		}
		resp, err = next(ctx, req)
		return err
	})
	if err != nil {
		return nil, err
	}
	return resp, nil
}

// Stream is the interceptor of streams.
func (i Interceptor) Stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	return i.around(ss.Context(), info.FullMethod, func(ctx context.Context) error {
		return next(srv, stream{ss, ctx})
	})
}

type stream struct {
	grpc.ServerStream
	ctx context.Context //nolint:containedctx // a grpc.ServerStream carries its context
}

func (s stream) Context() context.Context { return s.ctx }

func (i Interceptor) around(ctx context.Context, method string, call func(context.Context) error) (err error) {
	begun := time.Now()
	var p fleet.Principal
	defer func() {
		if r := recover(); r != nil {
			i.Log.ErrorContext(ctx, "panic", slog.String("method", method), slog.String("panic", fmt.Sprint(r)), slog.String("stack", string(debug.Stack())))
			err = toStatus(fleet.Errorf(fleet.ReasonInternal, "something went wrong inside; the server's log has the cause")).Err()
			return
		}
		if err != nil {
			s := toStatus(err)
			i.logCall(ctx, method, p, begun, s, err)
			err = s.Err()
			return
		}
		i.logCall(ctx, method, p, begun, nil, nil)
	}()
	if strings.HasPrefix(method, "/grpc.") || method == fleetv1.HealthService_CheckHealth_FullMethodName { // health and reflection are for everybody
		return call(ctx)
	}
	md, _ := metadata.FromIncomingContext(ctx)
	if p, err = i.Auth.Authenticate(ctx, md); err != nil {
		return err
	}
	if p.AgentUID != "" && !forAgents(method) {
		return fleet.Errorf(fleet.ReasonPermissionDenied, "an agent's own token is not good for this: it may report on its task and call what its definition allows")
	}
	return call(fleet.WithPrincipal(ctx, p))
}

func (i Interceptor) logCall(ctx context.Context, method string, p fleet.Principal, begun time.Time, s *status.Status, err error) {
	level, attrs := slog.LevelDebug, []slog.Attr{
		slog.String("method", method[strings.LastIndexByte(method, '/')+1:]), slog.String("principal", p.Name), slog.Duration("took", time.Since(begun)),
	}
	if s != nil {
		attrs = append(attrs, slog.String("code", s.Code().String()), slog.Any("error", err))
		if s.Code() == codes.Internal || s.Code() == codes.Unknown {
			level = slog.LevelError
		}
	}
	i.Log.LogAttrs(ctx, level, "call", attrs...)
}

// FaceKey is the metadata key that says through which face a call came: "rest" or "mcp".
const FaceKey = "fleet-face"

// NoAuth takes every caller for the one person who runs Fleet on this machine. Calls through MCP count as an AI
// controller's, so that the history tells them apart.
//
// An agent that calls with the token it was given is that agent all the same, and may do no more than it may elsewhere.
type NoAuth struct {
	// Lookup returns the principal of a secret; nil when agents have none.
	Lookup func(ctx context.Context, secret string) (fleet.Principal, error)
}

// LocalPrincipal is the name of the principal when nobody has to identify themselves.
const LocalPrincipal = "local"

// Authenticate returns the local principal, or the agent that calls.
func (a NoAuth) Authenticate(ctx context.Context, md metadata.MD) (fleet.Principal, error) {
	for _, v := range md.Get("authorization") {
		if _, secret, _ := strings.Cut(v, " "); a.Lookup != nil && fleet.IsAgentSecret(strings.TrimSpace(secret)) {
			return a.Lookup(ctx, strings.TrimSpace(secret))
		}
	}
	p := fleet.Principal{Name: LocalPrincipal, Kind: fleet.Human, Admin: true}
	if v := md.Get(FaceKey); len(v) > 0 && v[0] == "mcp" {
		p.Kind = fleet.Controller
	}
	return p, nil
}

// TokenAuth takes callers for whom their token stands: "authorization: Bearer SECRET".
type TokenAuth struct {
	// Lookup returns the principal of a secret.
	Lookup func(ctx context.Context, secret string) (fleet.Principal, error)
}

// Authenticate returns the principal of the call's token.
func (a TokenAuth) Authenticate(ctx context.Context, md metadata.MD) (fleet.Principal, error) {
	v := md.Get("authorization")
	if len(v) == 0 {
		return fleet.Principal{}, fleet.Errorf(fleet.ReasonUnauthenticated, "a token is required: send it as \"Authorization: Bearer TOKEN\"; `fleet token create` makes one")
	}
	scheme, secret, ok := strings.Cut(v[0], " ")
	if !ok || !strings.EqualFold(scheme, "bearer") || len(v) > 1 {
		return fleet.Principal{}, fleet.Errorf(fleet.ReasonUnauthenticated, "the Authorization header must be one \"Bearer TOKEN\"")
	}
	return a.Lookup(ctx, strings.TrimSpace(secret))
}
