package app

import (
	"github.com/fullstorydev/grpchan/inprocgrpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// sharingCloner copies answers and the messages of streams through the in-process channel without cloning their content. Each
// call has messages of its own, and the sender does not use a message after the receiver has it. So the receiver's message
// can share the lists and messages in it. A message of a stream is cloned when it is sent, because its sender continues at
// once.
//
// The values in an answer may belong to the service. Code that changes more than the top-level fields of an answer must
// clone the answer first.
type sharingCloner struct{ inprocgrpc.ProtoCloner }

// Copy sets the fields of out to the values of the fields of in, which both then share.
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
