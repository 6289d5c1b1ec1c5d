package main

import "google.golang.org/protobuf/reflect/protoreflect"

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
