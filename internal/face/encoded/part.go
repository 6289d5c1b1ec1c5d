package encoded

import (
	"sync"
	"sync/atomic"

	"google.golang.org/protobuf/proto"
)

// Part is a message that many answers have in common. It must not be changed.
type Part struct {
	message  proto.Message
	protobuf func() ([]byte, error)
	list     func() (*jsonList, error)
	last     atomic.Pointer[jsonAnswer] // the last answer as JSON
}

// NewPart returns a part that is encoded when it is needed, and only once in each format. The first field of the
// message must be a list, which should be most of the message. Answers must not set this field in Live.
func NewPart(m proto.Message) *Part {
	return &Part{
		message:  m,
		protobuf: sync.OnceValues(func() ([]byte, error) { return proto.Marshal(m) }),
		list:     sync.OnceValues(func() (*jsonList, error) { return newList(m) }),
	}
}

// Answer answers one call. Live is a message of the same type as the part's, with the fields that change more often.
type Answer struct {
	Part *Part
	Live proto.Message

	jsonForm *jsonAnswer // the answer as JSON; nil until it is needed
}

// Message returns the whole answer as a new message.
func (a *Answer) Message() proto.Message {
	m := proto.Clone(a.Part.message)
	proto.Merge(m, a.Live)
	return m
}
