package encoded

import (
	"sync"
	"sync/atomic"

	"google.golang.org/protobuf/proto"
)

// Part is a message that many responses have in common. It must not be changed.
type Part struct {
	message  proto.Message
	protobuf func() ([]byte, error)
	list     func() (*jsonList, error)
	last     atomic.Pointer[JSON] // the last response as JSON
}

// NewPart returns a part that is encoded when it is needed, and only once in each format. The first field of the
// message must be a list, which should be most of the message. Responses must not set this field in Live.
func NewPart(m proto.Message) *Part {
	return &Part{
		message:  m,
		protobuf: sync.OnceValues(func() ([]byte, error) { return proto.Marshal(m) }),
		list:     sync.OnceValues(func() (*jsonList, error) { return newJSONList(m) }),
	}
}

// Response is the response to one call. Live is a message of the same type as the message of the part, with the fields that
// change more often.
type Response struct {
	Part *Part
	Live proto.Message

	json *JSON // nil until it is needed
}

// Message returns the whole response as a new message.
func (r *Response) Message() proto.Message {
	m := proto.Clone(r.Part.message)
	proto.Merge(m, r.Live)
	return m
}
