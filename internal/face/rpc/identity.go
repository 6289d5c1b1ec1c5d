package rpc

import (
	"context"
	"strings"

	"google.golang.org/grpc/metadata"

	"fleet/internal/fleet"
)

// identity is who calls, or why that is not known.
type identity struct {
	principal fleet.Principal
	err       error
	given     bool // the caller gave credentials
	audited   bool // that nobody knows who calls is in the log
}

type identityKey struct{}

// Identify finds out who makes the call with this metadata, before anything else of the call is read. The interceptors
// take what it has found from the context that it returns, also when that is an error. The method is that of gRPC, and
// empty where it is not known yet: then a caller without credentials may call what is open to all.
func (i *Interceptor) Identify(ctx context.Context, md metadata.MD, method string) (context.Context, error) {
	id := i.identify(ctx, md)
	if id.err != nil && (method != "" || id.given) {
		i.failed(ctx, method, id)
	}
	ctx = context.WithValue(ctx, identityKey{}, id)
	if id.err != nil {
		return ctx, Error(id.err)
	}
	return ctx, nil
}

// identify asks who calls, unless Identify has.
func (i *Interceptor) identify(ctx context.Context, md metadata.MD) *identity {
	if id := identityOf(ctx); id != nil {
		return id
	}
	id := &identity{given: len(md.Get(authorization)) > 0}
	id.principal, id.err = i.auth.Authenticate(ctx, md)
	return id
}

func identityOf(ctx context.Context) *identity {
	id, _ := ctx.Value(identityKey{}).(*identity)
	return id
}

// Inherit returns ctx with what Identify has found for the call that from belongs to. It carries that over where the
// values of a context are lost: into the process's own channel.
func Inherit(ctx, from context.Context) context.Context {
	if id := identityOf(from); id != nil {
		return context.WithValue(ctx, identityKey{}, id)
	}
	return ctx
}

// IsAgent says whether who calls, as Identify has found it, is an agent with a token of its own.
func IsAgent(ctx context.Context) bool {
	id := identityOf(ctx)
	return id != nil && id.err == nil && id.principal.AgentUID != ""
}

// Caller returns a name for who calls, as Identify has found it. Different callers have different names. It is empty for
// a caller that is not known.
func Caller(ctx context.Context) string {
	id := identityOf(ctx)
	if id == nil || id.err != nil {
		return ""
	}
	return strings.TrimSuffix(id.principal.Name+"/"+id.principal.AgentUID, "/")
}
