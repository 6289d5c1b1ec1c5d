package main

import (
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// These are names of Fleet's own options, from fleet/v1/options.proto. The options that limit results are in limit.go.
const (
	toolsetOption       = protoreflect.FullName("fleet.v1.toolset")
	progressOption      = protoreflect.FullName("fleet.v1.progress_agent_field")
	eventStreamOption   = protoreflect.FullName("fleet.v1.event_stream")
	defaultOption       = protoreflect.FullName("fleet.v1.tool_default")
	defaultTextOption   = protoreflect.FullName("fleet.v1.tool_default_text")
	noToolOption        = protoreflect.FullName("fleet.v1.no_tool")
	contractToolOption  = protoreflect.FullName("fleet.v1.contract_tool")
	operatorToolOption  = protoreflect.FullName("fleet.v1.operator_tool")
	operatorFieldOption = protoreflect.FullName("fleet.v1.operator_field")
	taskOption          = protoreflect.FullName("fleet.v1.mcp_task")
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

// hasBriefInput reports whether the method's tool has a brief input schema: whether its request has fields that only operators need.
func (g generator) hasBriefInput(m *protogen.Method) bool {
	for _, f := range m.Input.Fields {
		if g.options.Bool(f.Desc, operatorFieldOption) {
			return true
		}
	}
	return false
}
