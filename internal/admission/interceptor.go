package admission

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/fleet"
)

// Interceptor wraps every call of every face: it identifies the caller, checks rights and limits, turns a panic into an INTERNAL error
// and core errors into statuses, and writes the log and the audit log.
type Interceptor struct {
	auth      Authenticator
	log       *slog.Logger
	remote    func(ctx context.Context) string
	observer  Observer
	rates     *Rates
	slots     *Slots
	auditLog  AuditLog
	throttled *throttledLog
	openCalls *openCalls
	unread    *unreadCounter
}

// Observer is notified of every call, including refused calls.
type Observer interface {
	// CallBegan is called when a call begins, with the method's full name. It returns the context for the call. The
	// face is "grpc", "rest", "mcp", or any other text that the caller sends in FaceKey.
	CallBegan(ctx context.Context, method, face string) context.Context
	// CallEnded is called when a call has ended, with the outcome and the time it took. The context is the one from CallBegan. If
	// Identify refuses a call, CallBegan is not called, and the time is 0.
	CallEnded(ctx context.Context, method, face string, stream bool, code codes.Code, took time.Duration)
}

// Config configures an Interceptor.
type Config struct {
	Auth     Authenticator
	Log      *slog.Logger
	Remote   func(ctx context.Context) string // the address from which a call comes
	Observer Observer
	Rates    *Rates // nil means no limits
	Slots    *Slots // nil means no limits
	Audit    AuditLog
	// OpenCalls limits the open calls of a principal; 0 means no limit.
	OpenCalls int
	// UnreadTimeout is how long a stream over gRPC waits for a client that does not read; 0 means 30 seconds. The REST face has a
	// limit of its own.
	UnreadTimeout time.Duration
}

// NewInterceptor returns the interceptor.
func NewInterceptor(c Config) *Interceptor {
	if c.UnreadTimeout == 0 {
		c.UnreadTimeout = 30 * time.Second
	}
	return &Interceptor{
		auth: c.Auth, log: c.Log, remote: c.Remote, observer: c.Observer, rates: c.Rates, slots: c.Slots, auditLog: c.Audit,
		throttled: newThrottledLog(c.Log, c.Audit), openCalls: newOpenCalls(c.Auth, c.OpenCalls, c.UnreadTimeout), unread: newUnreadCounter(),
	}
}

// SetLimits replaces the limits of calls. It has no effect on Rates and Slots that are nil.
func (i *Interceptor) SetLimits(limits fleet.Limits) {
	i.rates.SetLimits(limits)
	i.slots.SetLimits(limits)
	i.openCalls.limit.Store(int64(limits.OpenCalls))
}

// Close ends the interceptor's background work. Call it after the last call.
func (i *Interceptor) Close() { i.throttled.close() }

// Unary is the interceptor of unary calls.
func (i *Interceptor) Unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (resp any, err error) {
	rec := &callRecord{request: req}
	err = i.runCall(ctx, info.FullMethod, rec, func(ctx context.Context) (err error) {
		if err := checkRequest(req); err != nil {
			return err
		}
		if err := rec.takeSlot(ctx); err != nil {
			return err
		}
		if err := i.checkUnread(ctx); err != nil {
			return err
		}
		resp, err = next(ctx, req)
		rec.response = resp
		if err == nil {
			resp = i.countUnread(ctx, resp) // counted while the call has a slot, so that only a few calls can exceed the limit
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return resp, nil
}

// Stream is the interceptor of streams.
func (i *Interceptor) Stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	rec := &callRecord{stream: true}
	return i.runCall(ss.Context(), info.FullMethod, rec, func(ctx context.Context) error {
		return next(srv, stream{ss, ctx, rec, i})
	})
}

// stream is a server stream with the context of its caller.
type stream struct {
	grpc.ServerStream
	ctx context.Context //nolint:containedctx // a grpc.ServerStream carries its context
	rec *callRecord
	i   *Interceptor
}

func (s stream) Context() context.Context { return s.ctx }

// RecvMsg receives the request, keeps it for the audit entry, and waits for a slot. Later messages of the client belong to the
// same call.
func (s stream) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil || s.rec.request != nil {
		return err
	}
	if s.rec.request = m; s.rec.auditEntry != nil {
		s.rec.auditEntry.Change(func(e *fleet.AuditEntry) { describe(e, m) })
	}
	if err := checkRequest(m); err != nil {
		return err
	}
	return s.rec.takeSlot(s.ctx)
}

// checkRequest refuses requests that the validation rules of the proto cannot refuse.
func checkRequest(req any) error {
	if err := checkEnums(req); err != nil {
		return err
	}
	return checkValues(req)
}

// SendMsg gives up the call's slot before it sends, because a client may read slowly. It sends nothing in a call that was
// ended.
func (s stream) SendMsg(m any) error {
	s.rec.slot.Release()
	if err := s.ctx.Err(); err != nil {
		return err
	}
	if part := s.rec.grpcPart; part != nil {
		part.beginSend()
		defer part.endSend()
		m = s.i.countUnread(s.ctx, m)
	}
	err := s.ServerStream.SendMsg(m)
	if errors.Is(err, io.EOF) { // what the in-process channel returns when the caller has ended the call
		return context.Canceled
	}
	return err
}

// callRecord has what the interceptor must know about a call until the call ends. The request and the response may be nil.
type callRecord struct {
	request, response any
	stream            bool
	caller            string                   // name of the principal; empty if the caller is not identified
	auditEntry        *fleet.PendingAuditEntry // nil if the call is not audited
	auditsOnlyFailure bool                     // the entry is dropped if the call succeeds
	call              fleet.Call
	slot              slot
	grpcPart          *callPart // nil if the call has no credentials, or did not come over gRPC
}

// takeSlot waits for a slot, after which the server may work on the call. A call that gets no slot has no effect, so takeSlot
// removes its audit entry.
func (r *callRecord) takeSlot(ctx context.Context) error {
	err := r.slot.take(ctx, r.caller)
	if err != nil {
		r.auditEntry = nil
	}
	return err
}

// runCall admits a call and runs it. A method that is open to all needs no admission. After the call, runCall notifies the observer,
// and writes the log and the audit entry. It turns a panic into an error. The error that it returns is a gRPC status.
func (i *Interceptor) runCall(ctx context.Context, method string, rec *callRecord, call func(context.Context) error) (err error) {
	started, panicked := time.Now(), false
	face := faceOf(ctx)
	rec.call.Detached = len(metadata.ValueFromIncomingContext(ctx, DetachedKey)) > 0
	rec.call.Resumes = len(metadata.ValueFromIncomingContext(ctx, ResumesKey)) > 0
	rec.call.ID, rec.call.Slot = fleet.CallID(rand.Uint64()), &rec.slot //nolint:gosec // it is not a secret
	if i.rates != nil {
		rec.call.CountRequest = i.rates.takeForProject
	}
	ctx = fleet.WithCall(ctx, &rec.call)
	ctx = i.observer.CallBegan(ctx, method, face)
	defer func() {
		if r := recover(); r != nil {
			i.log.ErrorContext(ctx, "call panicked", slog.String("method", method), slog.String("panic", fmt.Sprint(r)), slog.String("stack", string(debug.Stack())))
			err = errPanic
			panicked = true
		}
		rec.slot.Release()
		var s *status.Status
		if err != nil {
			s = statusOf(ctx, err)
		}
		took := time.Since(started)
		i.observer.CallEnded(ctx, method, face, rec.stream, s.Code(), took) // the code of nil is OK
		if !panicked {
			i.logCall(ctx, method, rec.caller, took, s, err)
		}
		if rec.auditEntry != nil && (s != nil || !rec.auditsOnlyFailure) {
			i.writeAudit(ctx, rec.auditEntry, rec, s)
		}
		if s != nil {
			err = s.Err()
		}
	}()
	if OpenToAll(method) {
		return call(ctx)
	}
	ctx, leave, err := i.admit(ctx, method, rec)
	if err != nil {
		return err
	}
	defer leave()
	if err = call(ctx); err != nil {
		if e, ok := errors.AsType[endError](context.Cause(ctx)); ok {
			return e.error
		}
	}
	return err
}

// admit identifies the caller and checks that the caller may call the method. It returns the context for the call. The
// function leave must be called when the call has ended.
func (i *Interceptor) admit(ctx context.Context, method string, rec *callRecord) (_ context.Context, leave func(), err error) {
	id := identityOf(ctx)
	if id == nil {
		md, _ := metadata.FromIncomingContext(ctx)
		id = i.identify(ctx, md)
	}
	rec.caller = id.principal.Name
	if id.err != nil {
		i.auditFailedLogin(ctx, method, id)
		return ctx, nil, id.err
	}
	if id.limitErr != nil {
		return ctx, nil, id.limitErr
	}
	r := rightsForMethod(method)
	switch {
	case r.mutates:
		rec.auditEntry = i.newPendingEntry(ctx, method, id.principal, rec)
		ctx = fleet.WithAudit(ctx, rec.auditEntry)
	case id.principal.AgentUID != "": // a refused call of an agent is audited even if the method changes nothing
		rec.auditEntry, rec.auditsOnlyFailure = i.newPendingEntry(ctx, method, id.principal, rec), true
	}
	if err := r.check(id.principal); err != nil {
		return ctx, nil, err
	}
	rec.slot.slots = i.slots
	ctx, leave = fleet.WithPrincipal(ctx, id.principal), func() {}
	switch {
	case id.grpcPart != nil:
		rec.grpcPart = id.grpcPart
		err = i.openCalls.setStream(id.call, id.grpcPart, rec.stream)
		// If the response were compressed, gRPC would keep a copy of it, and release the buffer that counts.
		if err == nil && grpc.SetSendCompressor(ctx, encoding.Identity) != nil {
			err = context.Canceled // SetSendCompressor fails only if the client has ended the call
		}
	case id.call != nil:
		ctx, _, leave, err = i.openCalls.attach(ctx, id.call, rec.stream)
	}
	if err == nil && r.download && id.call != nil {
		ctx, leave, err = i.unread.countDownload(ctx, id.principal.Name, leave)
	}
	return ctx, leave, err
}

// OpenToAll reports whether unidentified callers may call the method. The methods of gRPC itself, such as reflection, and those of
// HealthService are open to all.
func OpenToAll(method string) bool {
	return strings.HasPrefix(method, "/grpc.") || method == fleetv1.HealthService_CheckHealth_FullMethodName || method == fleetv1.HealthService_ShowServer_FullMethodName
}

// errPanic is the error of a call that panicked. The log has the panic and its stack.
var errPanic = errors.New("panic")

// statusOf returns the status for the call's error. The status of an internal error contains the call's ID, so that the
// caller can tell the operator what to look for in the log.
func statusOf(ctx context.Context, err error) *status.Status {
	s := toStatus(err)
	if s.Code() != codes.Internal || s.Message() != fleet.PublicMessage(err) {
		return s
	}
	return newStatus(codes.Internal, s.Message(), string(fleet.ReasonInternal), map[string]string{"call_id": fleet.CallIDFrom(ctx).String()})
}

func (i *Interceptor) logCall(ctx context.Context, method, caller string, took time.Duration, s *status.Status, err error) {
	level := slog.LevelDebug
	if s.Code() == codes.Internal || s.Code() == codes.Unknown {
		level = slog.LevelError
	}
	if !i.log.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{slog.String("method", shortMethod(method)), slog.String("principal", caller), slog.Duration("took", took)}
	if s != nil {
		attrs = append(attrs, slog.String("code", s.Code().String()), slog.Any("error", err))
	}
	i.log.LogAttrs(ctx, level, "call", attrs...)
}

func shortMethod(method string) string { return method[strings.LastIndexByte(method, '/')+1:] }
