package main

import (
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// These are Fleet's own options, from fleet/v1/options.proto.
const (
	toolset       = protoreflect.FullName("fleet.v1.toolset")
	progressField = protoreflect.FullName("fleet.v1.progress_agent_field")
	toolDefault   = protoreflect.FullName("fleet.v1.tool_default")
	noTool        = protoreflect.FullName("fleet.v1.no_tool")
	forAgents     = protoreflect.FullName("fleet.v1.for_agents")
	lastIsResult  = protoreflect.FullName("fleet.v1.last_is_result")
)

// options reads Fleet's own options through the descriptors in the request. The generated package has them as Go
// values, but the plugin generates that package and must not depend on it.
type options struct{ types *protoregistry.Types }

func newOptions(files []*protogen.File) options {
	o := options{types: &protoregistry.Types{}}
	for _, f := range files {
		for _, x := range f.Extensions {
			// A second option with the same name or number cannot exist, because protoc refuses it.
			_ = o.types.RegisterExtension(dynamicpb.NewExtensionType(x.Desc))
		}
	}
	return o
}

// get returns the value of an option, and whether it is set.
func (o options) get(of protoreflect.Descriptor, name protoreflect.FullName) (protoreflect.Value, bool) {
	x, err := o.types.FindExtensionByName(name)
	if err != nil {
		return protoreflect.Value{}, false
	}
	raw, err := proto.Marshal(of.Options())
	if err != nil {
		return protoreflect.Value{}, false
	}
	m := of.Options().ProtoReflect().New()
	if err := (proto.UnmarshalOptions{Resolver: o.types}).Unmarshal(raw, m.Interface()); err != nil {
		return protoreflect.Value{}, false
	}
	if !m.Has(x.TypeDescriptor()) {
		return protoreflect.Value{}, false
	}
	return m.Get(x.TypeDescriptor()), true
}

// says reports whether a boolean option is true.
func (o options) says(of protoreflect.Descriptor, name protoreflect.FullName) bool {
	v, ok := o.get(of, name)
	return ok && v.Bool()
}

// hints returns the MCP hints of a tool, derived from the HTTP verb and the idempotency level.
type hints struct{ readOnly, destructive, idempotent bool }

func hintsOf(m *protogen.Method) hints {
	level := descriptorpb.MethodOptions_IDEMPOTENCY_UNKNOWN
	if o, ok := m.Desc.Options().(*descriptorpb.MethodOptions); ok {
		level = o.GetIdempotencyLevel()
	}
	rule, _ := proto.GetExtension(m.Desc.Options(), annotations.E_Http).(*annotations.HttpRule)
	readOnly := level == descriptorpb.MethodOptions_NO_SIDE_EFFECTS || rule.GetGet() != ""
	return hints{
		readOnly:    readOnly,
		destructive: rule.GetDelete() != "",
		idempotent:  readOnly || level == descriptorpb.MethodOptions_IDEMPOTENT || rule.GetDelete() != "" || rule.GetPut() != "",
	}
}
