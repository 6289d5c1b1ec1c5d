package wire

import (
	"fmt"

	"google.golang.org/protobuf/proto"
)

// Marshal returns the message as compact JSON, with snake_case keys, the proto's lower-case enum names, and a key for
// every field that is not declared optional; a message or wrapper that is not set is null. It writes what protojson
// writes with UseProtoNames and EmitUnpopulated, without the spaces that protojson inserts at random. Equal messages
// have equal bytes, and clients may rely on that.
func Marshal(m proto.Message) ([]byte, error) {
	// JSON is larger than the wire format; allocating more is cheaper than growing.
	b, err := appendMessage(make([]byte, 0, 64+5*proto.Size(m)), m.ProtoReflect())
	if err != nil {
		return nil, fmt.Errorf("wire: marshal %s: %w", m.ProtoReflect().Descriptor().FullName(), err)
	}
	return b, nil
}
