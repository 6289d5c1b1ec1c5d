package app

import (
	"github.com/fullstorydev/grpchan/inprocgrpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// sharing passes messages through the in-process channel. Each call has messages of its own, which the sender does
// not use any more when the other side has them, so the receiver's message takes over the lists and messages in them. A
// message of a stream is cloned when it is sent, because its sender goes on at once.
//
// The values in an answer may belong to the service. Code that changes more than the fields of an answer must clone it.
type sharing struct{ inprocgrpc.ProtoCloner }

// Copy sets the fields of out to those of in.
func (s sharing) Copy(out, in any) error {
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
