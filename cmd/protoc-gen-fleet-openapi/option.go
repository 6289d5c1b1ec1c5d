package main

import (
	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/encoding/protowire"
)

// lastIsResultNumber is the number of the option last_is_result in fleet/v1/options.proto. The generated package has the
// option as a Go value, but the plugin runs to write that package, and must not need it: to the plugin it is an unknown
// field.
const lastIsResultNumber = protowire.Number(51006)

// lastIsResult says whether the last message of the method's stream is its result.
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
