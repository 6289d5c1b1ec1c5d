package wire

import (
	"bytes"
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// marshaller writes snake_case keys, lower-case enum values (the proto's own), and a key for every field that is not
// declared optional: null for a message or a wrapper that is not set.
var marshaller = protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}

// Marshal returns the message as compact JSON. The same message always gives the same bytes.
func Marshal(m proto.Message) ([]byte, error) {
	loose, err := marshaller.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("wire: marshal %s: %w", m.ProtoReflect().Descriptor().FullName(), err)
	}
	// protojson puts in spaces at random, so that nobody relies on its bytes. Fleet's clients may rely on them.
	var b bytes.Buffer
	b.Grow(len(loose))
	if err := json.Compact(&b, loose); err != nil {
		return nil, fmt.Errorf("wire: marshal %s: %w", m.ProtoReflect().Descriptor().FullName(), err)
	}
	return b.Bytes(), nil
}
