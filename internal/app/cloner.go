package app

import (
	"github.com/fullstorydev/grpchan/inprocgrpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// sharingCloner copies messages through the in-process channel without cloning their content: the message of the receiver shares
// the lists and messages in the message of the sender. This is safe because each call has messages of its own, and the sender of a
// request or an answer does not change it afterwards. The channel clones a message of a stream before it copies it, because the
// sender of a stream continues at once.
//
// The values in an answer may belong to the service. Code that changes more than the top-level fields of an answer must
// clone the answer first.
type sharingCloner struct{ inprocgrpc.ProtoCloner }

// Copy sets the fields of out to those of in, so that both share the values. If the messages have different types, it returns an
// error.
func (s sharingCloner) Copy(out, in any) error {
	to, ok := out.(proto.Message)
	from, isMessage := in.(proto.Message)
	if !ok || !isMessage || to.ProtoReflect().Descriptor() != from.ProtoReflect().Descriptor() {
		return s.ProtoCloner.Copy(out, in)
	}
	proto.Reset(to)
	m := to.ProtoReflect()
	from.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		m.Set(f, v)
		return true
	})
	m.SetUnknown(from.ProtoReflect().GetUnknown())
	return nil
}
