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
	list     func() (*list, error)
	last     atomic.Pointer[whole] // the last answer as JSON
}

// NewPart returns a part that is encoded when it is needed, once in each form. The first field of the message must be a list,
// which is most of the message. Answers must not set this field in Live.
func NewPart(m proto.Message) *Part {
	return &Part{
		message:  m,
		protobuf: sync.OnceValues(func() ([]byte, error) { return proto.Marshal(m) }),
		list:     sync.OnceValues(func() (*list, error) { return newList(m) }),
	}
}

// Answer answers one call. Live is a message of the same type as the part's, with the fields that change more often.
type Answer struct {
	Part *Part
	Live proto.Message

	whole *whole // as JSON; nil until it is asked for
}

// Message returns the whole answer. It belongs to the caller.
func (a *Answer) Message() proto.Message {
	m := proto.Clone(a.Part.message)
	proto.Merge(m, a.Live)
	return m
}
