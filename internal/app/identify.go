package app

import (
	"context"
	"errors"
	"net/http"
	"os"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/tap"

	"fleet/internal/admission"
	"fleet/internal/face/inbound"
	"fleet/internal/face/wire"
	"fleet/internal/fleet"
)

// identifyREST identifies the caller of a REST call or of a browser's sign-in, unless the method is open to all. method is empty for a
// sign-in. If the caller is known, identifyREST lifts the connection's limits.
func (a *App) identifyREST(ctx context.Context, method string, authorization []string) (context.Context, error) {
	if admission.OpenToAll(method) {
		return ctx, nil
	}
	return a.identifyWith(ctx, method, metadata.MD{admission.FaceKey: {"rest"}, "authorization": authorization})
}

// identifyMCP identifies the sender of an MCP message, and returns a name for the sender. The called tool
// is not known at this point.
func (a *App) identifyMCP(ctx context.Context, authorization []string) (_ context.Context, caller string, err error) {
	ctx, err = a.identifyWith(ctx, "", metadata.MD{admission.FaceKey: {"mcp"}, "authorization": authorization})
	return ctx, admission.Caller(ctx), err
}

// identifyGRPC identifies the caller of a gRPC call when its header has arrived. It does not identify callers of methods that are open to all, but limits how
// many such calls a connection makes.
func (a *App) identifyGRPC(ctx context.Context, info *tap.Info) (context.Context, error) {
	if admission.OpenToAll(info.FullMethodName) {
		if c := inbound.ConnFrom(ctx); c != nil && !c.AllowAnonymousCall() {
			return nil, admission.Error(fleet.Errorf(fleet.ReasonLimitReached, "the connection has made too many calls without saying who calls: connect again, or send a token"))
		}
		return ctx, nil
	}
	return admitIfKnown(a.interceptor.Begin(ctx, info.Header, admission.SanitizeMethod(info.FullMethodName)))
}

// identifyWith identifies the caller that the metadata describe. method is as in [admission.Interceptor.Identify].
// HTTP handlers that are not methods of the API pass their fixed path.
func (a *App) identifyWith(ctx context.Context, method string, md metadata.MD) (context.Context, error) {
	return admitIfKnown(a.interceptor.Identify(metadata.NewIncomingContext(ctx, md), md, method))
}

// admitIfKnown lifts the limits of the connection if err is nil, which means that its caller is known. It returns its arguments.
func admitIfKnown(ctx context.Context, err error) (context.Context, error) {
	if err == nil {
		admit(ctx)
	}
	return ctx, err
}

// admit lifts the limits of the connection that the context belongs to.
func admit(ctx context.Context) {
	if c := inbound.ConnFrom(ctx); c != nil {
		c.Admit()
	}
}

// forAdmins returns a handler that passes the requests of admins on to next, and refuses other requests. A known caller who is
// not an admin gets the text of refusal. It is for data about everybody's work.
func (a *App) forAdmins(next http.HandlerFunc, refusal string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		md := metadata.MD{admission.FaceKey: {"rest"}, "authorization": r.Header.Values("Authorization")}
		ctx, err := a.identifyWith(r.Context(), r.URL.Path, md)
		if err == nil && !admission.IsAdmin(ctx) {
			err = admission.Error(fleet.Errorf(fleet.ReasonPermissionDenied, "%s", refusal))
		}
		if err != nil {
			wire.WriteError(w, err)
			return
		}
		next(w, r)
	}
}

// localUserCheck returns a check for callers without a token: they must be the user who runs this process. It returns nil,
// for no check, if the server accepts every user of this machine or the system cannot tell users apart.
func localUserCheck(cfg Config, o Options) func(context.Context) error {
	if cfg.AnyLocalUser || !inbound.CanFindUser {
		return nil
	}
	serverUID := os.Geteuid()
	if o.LocalUser != nil {
		serverUID = o.LocalUser()
	}
	return func(ctx context.Context) error {
		if isOwnCall(ctx) {
			return nil
		}
		c := inbound.ConnFrom(ctx)
		if c == nil {
			return errors.New("the call has no token, and its connection is not known")
		}
		user, err := c.User()
		switch {
		case errors.Is(err, inbound.ErrConfined):
			return fleet.Errorf(fleet.ReasonPermissionDenied, "an agent's program does not count as the user who runs this server: use the agent's own token, if FLEET_REPORT_TOKEN_FILE names a file with one")
		case errors.Is(err, inbound.ErrDisconnected) || err != nil && ctx.Err() != nil:
			return context.Canceled // nobody waits for the answer, and it is not known who called
		case err != nil:
			return fleet.Errorf(fleet.ReasonPermissionDenied, "this server serves only the user who runs it, and could not tell who calls: "+otherUserAdvice).WithCause(err)
		case user != serverUID:
			return fleet.Errorf(fleet.ReasonPermissionDenied, "this server serves only the user who runs it (uid %d), and the caller is uid %d: "+otherUserAdvice, serverUID, user)
		}
		return nil
	}
}

// otherUserAdvice is the advice for a caller who is not the user who runs the server.
const otherUserAdvice = "run a server of your own with `fleet serve`, or have its operator start it with --auth tokens and give you a token; " +
	"--any-local-user opens it to every user of this machine"
