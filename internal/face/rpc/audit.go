package rpc

import (
	"context"
	"log/slog"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"fleet/internal/fleet"
)

// seen holds the request of a call and its answer. Each may be nil.
type seen struct {
	request, answer any
	stream          bool
}

// audit logs a call that may have changed something.
func (i *Interceptor) audit(ctx context.Context, method string, p fleet.Principal, seen *seen, s *status.Status) {
	outcome := "ok"
	if s != nil {
		outcome = reasonOf(s)
	}
	attrs := append(i.origin(ctx, method), slog.String("principal", p.Name), slog.String("kind", string(p.Kind)))
	if p.AgentUID != "" {
		attrs = append(attrs, slog.String("agent", p.AgentName))
	}
	attrs = append(attrs, slog.String("target", target(seen.request, seen.answer)), slog.String("outcome", outcome))
	if id := field(seen.request, "request_id"); id != "" {
		attrs = append(attrs, slog.String("request_id", id))
	}
	i.log.LogAttrs(ctx, slog.LevelInfo, "audit", attrs...)
}

// failed logs, once per call, that the caller could not be identified.
func (i *Interceptor) failed(ctx context.Context, method string, id *identity) {
	if id.audited {
		return
	}
	id.audited = true
	s := toStatus(id.err)
	i.failures.log(ctx, append(i.origin(ctx, method), slog.String("outcome", reasonOf(s)), slog.String("error", s.Message()))...)
}

// origin returns the method that was called, the face, and the remote address.
func (i *Interceptor) origin(ctx context.Context, method string) []slog.Attr {
	return []slog.Attr{slog.String("method", shortMethod(method)), slog.String("face", short(faceOf(ctx))), slog.String("remote", i.remote(ctx))}
}

// faceOf returns the face that the call came over.
func faceOf(ctx context.Context) string {
	if v := metadata.ValueFromIncomingContext(ctx, FaceKey); len(v) > 0 {
		return v[0]
	}
	return "grpc"
}

func reasonOf(s *status.Status) string {
	for _, d := range s.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			return info.GetReason()
		}
	}
	return strings.ToUpper(s.Code().String())
}

// targets are the fields that name what a call concerns, the most specific first.
var targets = []protoreflect.Name{
	"agent_name", "agent_id", "task_id", "agent_session_id", "tool_name", "registry_ref", "subagent", "subagent_name", "name", "agent",
}

// target returns the name of what the call concerns, or "" if no field names it. For a call that creates something,
// this is what its answer names.
func target(messages ...any) string {
	for _, m := range messages {
		for _, name := range targets {
			if v := field(m, name); v != "" {
				return v
			}
		}
	}
	return ""
}

// field returns the text of the message's field, or "" if it has none.
func field(m any, name protoreflect.Name) string {
	message, ok := m.(proto.Message)
	if !ok || message == nil {
		return ""
	}
	r := message.ProtoReflect()
	f := r.Descriptor().Fields().ByName(name)
	if f == nil || f.Kind() != protoreflect.StringKind || f.IsList() || f.IsMap() || !r.IsValid() {
		return ""
	}
	return short(r.Get(f).String())
}

// short shortens what a caller sent to what fits into a log line.
func short(s string) string {
	const most = 128
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}

// mutates reports whether a call of the method may change something. A method counts as mutating unless its options say
// that it has no side effects.
func mutates(method string) bool {
	name := protoreflect.FullName(strings.ReplaceAll(strings.TrimPrefix(method, "/"), "/", "."))
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
	m, ok := d.(protoreflect.MethodDescriptor)
	if err != nil || !ok || strings.HasPrefix(method, "/grpc.") {
		return false
	}
	options, _ := m.Options().(*descriptorpb.MethodOptions)
	return options.GetIdempotencyLevel() != descriptorpb.MethodOptions_NO_SIDE_EFFECTS
}
