package wire

import (
	"fmt"

	"google.golang.org/protobuf/proto"
)

// Marshal returns the message as compact JSON, with snake_case keys, lower-case enum values (the proto's own), and a key
// for every field that is not declared optional: null for a message or a wrapper that is not set. That is what
// protojson writes with UseProtoNames and EmitUnpopulated, but for the spaces that protojson puts in at random, so that
// nobody relies on its bytes. The same message always gives the same bytes, and Fleet's clients may rely on them.
func Marshal(m proto.Message) ([]byte, error) {
	// Keys make it some times larger than on the wire; room for them is cheaper than growing.
	b, err := appendMessage(make([]byte, 0, 64+5*proto.Size(m)), m.ProtoReflect())
	if err != nil {
		return nil, fmt.Errorf("wire: marshal %s: %w", m.ProtoReflect().Descriptor().FullName(), err)
	}
	return b, nil
}
