package admission

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/fleet"
)

// AuditLog keeps the entries of calls in the store.
type AuditLog interface {
	// Add writes the entry of a call that has ended, or one entry for calls that were only counted. It may write the entry later. If a
	// transaction of the call changed something, the first such transaction has already written the entry and given it an ID. Then
	// Add updates the outcome and the target of that entry.
	Add(e fleet.AuditEntry)
	// Now returns the time of a new entry.
	Now() time.Time
}

// newPendingEntry returns the pending audit entry of a call that may change something.
func (i *Interceptor) newPendingEntry(ctx context.Context, method string, p fleet.Principal, rec *callRecord) *fleet.PendingAuditEntry {
	e := i.newAuditEntry(ctx, method)
	e.Principal, e.Kind = p.Name, p.Kind
	if p.AgentUID != "" {
		e.CallerAgent = p.AgentName
	}
	pending := fleet.NewPendingAuditEntry(e)
	pending.Change(func(e *fleet.AuditEntry) { describe(e, rec.request) })
	return pending
}

// newAuditEntry returns an entry that does not name the caller yet.
func (i *Interceptor) newAuditEntry(ctx context.Context, method string) fleet.AuditEntry {
	return fleet.AuditEntry{Time: i.auditLog.Now(), Method: shortMethod(method), Face: shorten(faceOf(ctx)), Remote: i.remote(ctx), Count: 1}
}

// describe sets the target, the request ID and the agent of the entry from the request. The request may be nil.
func describe(e *fleet.AuditEntry, request any) {
	e.Target, e.RequestID = targetOf(request), requestID(request)
	e.AgentName, e.Owner = fleet.SplitOwnedRef(auditAgentRef(request))
}

// writeAudit writes the entry of a call to the log and to the audit log. If the call changed nothing, writeAudit may only count it; see
// throttledLog.
func (i *Interceptor) writeAudit(ctx context.Context, pending *fleet.PendingAuditEntry, rec *callRecord, s *status.Status) {
	e := pending.Change(func(e *fleet.AuditEntry) {
		if e.Outcome = fleet.OutcomeOK; s != nil {
			e.Outcome = reasonOf(s)
		}
		e.Target = targetOf(rec.request, rec.response)
	})
	if changed := e.ID != 0; !changed && !i.throttled.allowOrCountCall(e) {
		return
	}
	attrs := append(attrsOf(e), slog.String("principal", e.Principal), slog.String("kind", string(e.Kind)))
	if e.CallerAgent != "" {
		attrs = append(attrs, slog.String("agent", e.CallerAgent))
	}
	attrs = append(attrs, slog.String("target", e.Target), slog.String("outcome", e.Outcome))
	if e.RequestID != "" {
		attrs = append(attrs, slog.String("request_id", e.RequestID))
	}
	i.log.LogAttrs(ctx, slog.LevelInfo, "audit", attrs...)
	i.auditLog.Add(e)
}

// auditFailedLogin logs that the caller could not be identified. It does so once per call, and not if the caller gave up first.
func (i *Interceptor) auditFailedLogin(ctx context.Context, method string, id *identity) {
	if id.audited || errors.Is(id.err, context.Canceled) || errors.Is(id.err, context.DeadlineExceeded) {
		return
	}
	id.audited = true
	s, e := toStatus(id.err), i.newAuditEntry(ctx, method)
	e.Outcome = reasonOf(s)
	i.throttled.recordFailedLogin(ctx, e, append(attrsOf(e), slog.String("outcome", e.Outcome), slog.String("error", s.Message()))...)
}

// attrsOf returns log attributes for the entry's method, face and remote address.
func attrsOf(e fleet.AuditEntry) []slog.Attr {
	return []slog.Attr{slog.String("method", e.Method), slog.String("face", e.Face), slog.String("remote", e.Remote)}
}

// faceOf returns the face through which the call came.
func faceOf(ctx context.Context) string {
	if v := metadata.ValueFromIncomingContext(ctx, FaceKey); len(v) > 0 {
		return v[0]
	}
	return "grpc"
}

// reasonOf returns the error reason of the status, or the name of its code if it has no reason.
func reasonOf(s *status.Status) string {
	for _, d := range s.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			return info.GetReason()
		}
	}
	return strings.ToUpper(s.Code().String())
}

// targetOf describes the target of a call: the name of the object, the person or group that the call shares it with, and what
// the call permits. It uses the first message that has the name. Pass the request before the response. The response names an
// object that the call created.
func targetOf(messages ...any) string {
	for _, m := range messages {
		object, with, grants := "", "", ""
		for f, v := range setFields(m) {
			switch auditPartOf(f) {
			case fleetv1.Audit_target, fleetv1.Audit_agent:
				object = shorten(textOf(f, v))
			case fleetv1.Audit_group:
				with = " with group " + shorten(v.String())
			case fleetv1.Audit_person:
				with = " with " + shorten(v.String())
			case fleetv1.Audit_grant:
				grants += ", " + grantText(f, v)
			case fleetv1.Audit_part_unspecified:
			}
		}
		if object != "" {
			return object + with + shorten(grants)
		}
	}
	return ""
}

// grantText returns the name and the value of a field that says what a call allows somebody to do.
func grantText(f protoreflect.FieldDescriptor, v protoreflect.Value) string {
	text := string(f.Name())
	switch {
	case f.IsList():
		text += " " + textOf(f, v)
	case f.Enum() != nil:
		if value := f.Enum().Values().ByNumber(v.Enum()); value != nil { // a request with an unknown value is refused
			text += " " + string(value.Name())
		}
	case f.Kind() != protoreflect.BoolKind:
		text += " " + v.String()
	}
	return text
}

// textOf returns the text of the field, or its texts with spaces between them.
func textOf(f protoreflect.FieldDescriptor, v protoreflect.Value) string {
	if !f.IsList() {
		return v.String()
	}
	texts := make([]string, v.List().Len())
	for i := range texts {
		texts[i] = v.List().Get(i).String()
	}
	return strings.Join(texts, " ")
}

// auditPartOf returns the part of an audit entry that the field provides.
func auditPartOf(f protoreflect.FieldDescriptor) fleetv1.Audit_Part {
	part, _ := proto.GetExtension(f.Options(), fleetv1.E_Audited).(fleetv1.Audit_Part)
	return part
}

// auditAgentRef returns the reference, NAME or NAME@OWNER, to the agent that is the object of the call, or "".
func auditAgentRef(request any) string {
	return firstText(request, func(f protoreflect.FieldDescriptor) bool { return auditPartOf(f) == fleetv1.Audit_agent })
}

// requestID returns the ID with which the caller can repeat the call, or "".
func requestID(request any) string {
	return firstText(request, func(f protoreflect.FieldDescriptor) bool {
		shown, _ := proto.GetExtension(f.Options(), fleetv1.E_Shown).(*fleetv1.Shown)
		return shown.GetRole() == fleetv1.Shown_request_id
	})
}

// firstText returns the text of the first field that matches and has a value, or "". It shortens a long text.
func firstText(m any, matches func(protoreflect.FieldDescriptor) bool) string {
	for f, v := range setFields(m) {
		if matches(f) {
			return shorten(v.String())
		}
	}
	return ""
}

// setFields returns the fields of the message that have a value, in the order of the proto.
func setFields(m any) iter.Seq2[protoreflect.FieldDescriptor, protoreflect.Value] {
	return func(yield func(protoreflect.FieldDescriptor, protoreflect.Value) bool) {
		message, ok := m.(proto.Message)
		if !ok || message == nil || !message.ProtoReflect().IsValid() {
			return
		}
		r := message.ProtoReflect()
		for i, all := 0, r.Descriptor().Fields(); i < all.Len(); i++ {
			if f := all.Get(i); r.Has(f) && !yield(f, r.Get(f)) {
				return
			}
		}
	}
}

// shorten shortens a text from a caller, so that it fits into a log line.
func shorten(s string) string {
	const maxLength = 128
	if len(s) <= maxLength {
		return s
	}
	return strings.ToValidUTF8(s[:maxLength], "") + "..."
}
