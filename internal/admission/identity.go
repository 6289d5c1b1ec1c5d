package admission

import (
	"cmp"
	"context"
	"strings"

	"google.golang.org/grpc/metadata"

	"fleet/internal/fleet"
)

// identity is the caller of a call, or the reason why the caller is not known.
type identity struct {
	principal fleet.Principal
	err       error
	md        metadata.MD
	audited   bool      // the failed identification is in the log
	limitErr  error     // the principal has sent too many requests, has too many open calls, or does not read its responses
	call      *openCall // nil if the caller is not identified, has no credentials, or exceeds a limit
	grpcPart  *callPart // the whole call if it came over gRPC; nil otherwise
}

// hasCredentials reports whether the caller gave credentials.
func (id *identity) hasCredentials() bool { return len(id.md.Get(authorization)) > 0 }

type identityKey struct{}

// Identify identifies the caller from the metadata, before anything else of the call is read. It puts the result, even
// an error, into the context that it returns, where the interceptors find it.
//
// method is the full gRPC name from SanitizeMethod, or empty if it is not known yet. If it is empty, missing credentials do not count as a
// failed login, because the method may be open to all. Identify does not enforce limits then either: call CheckLimits for that.
//
// A call with credentials counts as open until ctx ends.
func (i *Interceptor) Identify(ctx context.Context, md metadata.MD, method string) (context.Context, error) {
	id := identityOf(ctx)
	if id == nil {
		id = i.identify(ctx, md)
	}
	if id.err != nil && (method != "" || id.hasCredentials()) {
		i.auditFailedLogin(ctx, method, id)
	}
	ctx = context.WithValue(ctx, identityKey{}, id)
	if err := cmp.Or(id.err, id.limitErr); err != nil && method != "" {
		i.observer.CallEnded(ctx, method, faceOf(ctx), false, toStatus(err).Code(), 0)
		return ctx, Error(err)
	}
	if id.err != nil {
		return ctx, Error(id.err)
	}
	return ctx, nil
}

// Begin calls Identify for a gRPC call whose header has arrived. It removes FaceKey from md. The returned context must become the
// context of the whole call. It is cancelled when the caller's credentials are revoked. After that the server waits neither for the
// request nor for the client to read the response. A client whose request has not arrived gets CANCELLED.
func (i *Interceptor) Begin(ctx context.Context, md metadata.MD, method string) (context.Context, error) {
	delete(md, FaceKey) // only the faces in this process may set it
	ctx, err := i.Identify(ctx, md, method)
	if id := identityOf(ctx); err == nil && id.call != nil {
		const isStream = true // it counts as a stream until admit knows better
		ctx, id.grpcPart, _, err = i.openCalls.attach(ctx, id.call, isStream)
	}
	return ctx, err
}

// CheckLimits returns an error if the caller has sent too many requests, has too many open calls, or does not read its responses. Call
// it after Identify and before the request is read. Calls with the context fail with the same error.
func CheckLimits(ctx context.Context) error {
	if id := identityOf(ctx); id != nil && id.limitErr != nil {
		return Error(id.limitErr)
	}
	return nil
}

// TakeSlot waits for a slot for work that is not a call of the API, such as a list of the MCP tools. ctx is the context
// that Identify returned. Call leave after the work, once or more. All unidentified callers share one queue.
func (i *Interceptor) TakeSlot(ctx context.Context) (leave func(), err error) {
	s := &slot{slots: i.slots}
	name := ""
	if id := identityOf(ctx); id != nil {
		name = id.principal.Name
	}
	if err := s.take(ctx, name); err != nil {
		return nil, Error(err)
	}
	return s.Release, nil
}

// identify identifies the caller, checks the caller's limits, and counts the call as open until ctx ends. A call without credentials
// does not count as open.
func (i *Interceptor) identify(ctx context.Context, md metadata.MD) *identity {
	id := &identity{md: md}
	if id.principal, id.err = i.auth.Authenticate(ctx, md); id.err != nil {
		return id
	}
	if id.limitErr = i.rates.take(ctx, id.principal); id.limitErr != nil || !id.hasCredentials() {
		return id
	}
	if id.limitErr = i.unread.check(id.principal.Name); id.limitErr == nil {
		id.call, id.limitErr = i.openCalls.add(ctx, id.principal, md)
	}
	return id
}

// identityOf returns the identity that Identify has put into the context, or nil.
func identityOf(ctx context.Context) *identity {
	id, _ := ctx.Value(identityKey{}).(*identity)
	return id
}

// Rights returns a function that reports whether the caller that Identify has identified may call the method with the
// full name. For an unidentified caller it reports true, because the caller may still sign in. Until then its calls are
// refused.
func Rights(ctx context.Context) (mayCall func(method string) bool) {
	if id := identityOf(ctx); id != nil && id.err == nil {
		return RightsOf(id.principal)
	}
	return func(string) bool { return true }
}

// RightsOf returns a function that reports whether the principal may call the method with the full name.
func RightsOf(p fleet.Principal) (mayCall func(method string) bool) {
	return func(method string) bool { return rightsForMethod(method).check(p) == nil }
}

// IsAdmin reports whether Identify has identified the caller as an admin. An agent is never an admin.
func IsAdmin(ctx context.Context) bool {
	id := identityOf(ctx)
	return id != nil && id.err == nil && id.principal.AgentUID == "" && id.principal.Admin()
}

// Caller returns a name for the caller that Identify has identified, or "" for an unidentified caller. Different
// callers have different names.
func Caller(ctx context.Context) string {
	id := identityOf(ctx)
	if id == nil || id.err != nil {
		return ""
	}
	return strings.TrimSuffix(id.principal.Name+"/"+id.principal.AgentUID, "/")
}
