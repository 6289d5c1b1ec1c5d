package main

import (
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// These are Fleet's own options, from fleet/v1/options.proto.
const (
	toolset       = protoreflect.FullName("fleet.v1.toolset")
	progressField = protoreflect.FullName("fleet.v1.progress_agent_field")
	eventStream   = protoreflect.FullName("fleet.v1.event_stream")
	toolDefault   = protoreflect.FullName("fleet.v1.tool_default")
	defaultText   = protoreflect.FullName("fleet.v1.tool_default_text")
	noTool        = protoreflect.FullName("fleet.v1.no_tool")
	contractTool  = protoreflect.FullName("fleet.v1.contract_tool")
	operatorTool  = protoreflect.FullName("fleet.v1.operator_tool")
)

// hints are the MCP annotations of a tool.
type hints struct{ readOnly, destructive, idempotent bool }

// hintsOf derives the hints from the method's HTTP verb and idempotency level.
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
