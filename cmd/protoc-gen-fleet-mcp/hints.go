package main

import (
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
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
