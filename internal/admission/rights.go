package admission

import (
	"sync"

	"google.golang.org/genproto/googleapis/api/httpbody"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/fleet"
)

// methodRights says who may call a method, and what kind of call it is. It comes from the method's options in the proto.
type methodRights struct {
	needs      fleet.Scope
	forAgents  bool               // agents with their own tokens may call it
	delegated  fleet.DelegatedAct // agents with their own tokens may call it if their grant allows the act; empty: they may not
	inProjects bool               // callers who are restricted to some projects may call it, since it is about objects in projects or the caller
	download   bool               // the response is the content of a file
	mutates    bool               // a call may change something: the method's options do not say that it has no side effects
}

// httpBody is the name of the message type in which a file is sent.
var httpBody = (&httpbody.HttpBody{}).ProtoReflect().Descriptor().FullName()

// rightsByMethod has the rights of all methods. The keys are "/package.Service/Method", as gRPC names methods.
var rightsByMethod = sync.OnceValue(func() map[string]methodRights {
	all := map[string]methodRights{}
	protoregistry.GlobalFiles.RangeFilesByPackage("fleet.v1", func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			methods := file.Services().Get(i).Methods()
			for j := range methods.Len() {
				m := methods.Get(j)
				forAgents, _ := proto.GetExtension(m.Options(), fleetv1.E_ForAgents).(bool)
				inProjects, _ := proto.GetExtension(m.Parent().Options(), fleetv1.E_InProjects).(bool)
				aboutCaller, _ := proto.GetExtension(m.Options(), fleetv1.E_AboutCaller).(bool)
				options, _ := m.Options().(*descriptorpb.MethodOptions)
				mutates := options.GetIdempotencyLevel() != descriptorpb.MethodOptions_NO_SIDE_EFFECTS
				act, _ := proto.GetExtension(m.Options(), fleetv1.E_Delegated).(string)
				all["/"+string(m.Parent().FullName())+"/"+string(m.Name())] = methodRights{
					needs: scopeOf(m, mutates), forAgents: forAgents, delegated: fleet.DelegatedAct(act), inProjects: inProjects || aboutCaller,
					download: m.Output().FullName() == httpBody, mutates: mutates,
				}
			}
		}
		return true
	})
	return all
})

// scopeOf returns the scope that a caller of the method needs.
func scopeOf(m protoreflect.MethodDescriptor, mutates bool) fleet.Scope {
	methodScope, _ := proto.GetExtension(m.Options(), fleetv1.E_Needs).(fleetv1.Scope)
	serviceScope, _ := proto.GetExtension(m.Parent().Options(), fleetv1.E_ServiceNeeds).(fleetv1.Scope)
	for _, option := range []fleetv1.Scope{methodScope, serviceScope} {
		if scope, ok := fleet.ParseScope(option.String()); ok {
			return scope
		}
	}
	if mutates {
		return fleet.ScopeRun
	}
	return fleet.ScopeRead
}

// rightsForMethod returns the rights of the method. Only admins may call a method that is not in Fleet's protos.
func rightsForMethod(method string) methodRights {
	if r, ok := rightsByMethod()[method]; ok {
		return r
	}
	return methodRights{needs: fleet.ScopeAdmin}
}

// SanitizeMethod returns the name unchanged if it is the full name of a method of Fleet's API, and "/unknown" otherwise. gRPC passes on
// any name that the client has sent. It may be long and need not be UTF-8, so it must not reach the audit log or the metrics.
func SanitizeMethod(method string) string {
	if _, ok := rightsByMethod()[method]; ok {
		return method
	}
	return "/unknown"
}

// HasMethod reports whether the API has a method with the short name, such as start_agent_task or StartAgentTask.
func HasMethod(name string) bool {
	for method := range rightsByMethod() {
		if fleet.MethodKey(shortMethod(method)) == fleet.MethodKey(name) {
			return true
		}
	}
	return false
}

// check returns PERMISSION_DENIED unless the principal may call a method with these rights. The core decides what the
// principal may do with the agents, tasks and other objects that a request names.
func (r methodRights) check(p fleet.Principal) error {
	switch {
	case p.AgentUID != "" && p.Grant != nil && r.delegated != "" && !p.Grant.Allows(r.delegated):
		return fleet.DelegationRefused("may", 0, 0, "your role does not let you do this with the tasks that you delegate: it needs %s", r.delegated)
	case p.AgentUID != "" && (!r.forAgents || p.OnlyDelegates) && !p.Grant.Allows(r.delegated):
		return fleet.Errorf(fleet.ReasonPermissionDenied, "an agent's own token is not valid for this call: it may report on its task and call what its definition allows")
	case p.Scope < r.needs:
		return fleet.Errorf(fleet.ReasonPermissionDenied, "this call needs scope %s, and %q has scope %s", r.needs, p.Name, p.Scope).
			With("needs", r.needs.String()).With("has", p.Scope.String()).Next("an admin can give you scope " + r.needs.String())
	case len(p.Projects) > 0 && !r.inProjects:
		return fleet.Errorf(fleet.ReasonPermissionDenied, "the token of %q is valid for agents of the projects %s only, and this call is about something else", p.Name, fleet.JoinNames(p.Projects))
	}
	return nil
}
