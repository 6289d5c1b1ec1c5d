package main

import (
	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/encoding/protowire"
)

// lastIsResultNumber is the number of the option last_is_result in fleet/v1/options.proto. The plugin generates the
// package that has the option as a Go value and must not depend on it, so the option is an unknown field here.
const lastIsResultNumber = protowire.Number(51006)

// lastIsResult reports whether the last message of the method's stream is its result.
func lastIsResult(m *protogen.Method) bool {
	for b := m.Desc.Options().ProtoReflect().GetUnknown(); len(b) > 0; {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return false
		}
		b = b[n:]
		if number == lastIsResultNumber && kind == protowire.VarintType {
			v, _ := protowire.ConsumeVarint(b)
			return v != 0
		}
		if n = protowire.ConsumeFieldValue(number, kind, b); n < 0 {
			return false
		}
		b = b[n:]
	}
	return false
}
