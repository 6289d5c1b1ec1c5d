package cli

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	fleetv1 "fleet/gen/fleet/v1"
)

// wholeListPageSize is the number of items that readWholeList requests with each call.
const wholeListPageSize = 100

// portionToRead returns the Portion option of the method. It returns nil if the method does not return parts of a list, or if
// the request asks for a certain part.
func portionToRead(method string, args any) *fleetv1.Portion {
	req, ok := args.(proto.Message)
	d := descriptorOf(method)
	if !ok || d == nil {
		return nil
	}
	portion := portionOf(d)
	if portion.GetNext() == "" || portion.GetFrom() == "" {
		return nil
	}
	if of := d.Output().Fields().ByName(protoreflect.Name(portion.GetOf())); of == nil || !of.IsList() {
		return nil
	}
	r := req.ProtoReflect()
	for _, name := range []string{portion.GetLimit(), portion.GetFrom(), "page", "page_size"} {
		if f := r.Descriptor().Fields().ByName(protoreflect.Name(name)); f != nil && r.Has(f) {
			return nil
		}
	}
	return portion
}

// readWholeList repeats the call, which sends a request for a part of the list and fills reply, until the list has ended. Then reply has all
// items. The caller's request args does not change.
func readWholeList(portion *fleetv1.Portion, args, reply any, call func(part any) error) error {
	req, resp := proto.Clone(args.(proto.Message)).ProtoReflect(), reply.(proto.Message).ProtoReflect()
	field := func(m protoreflect.Message, name string) protoreflect.FieldDescriptor {
		return m.Descriptor().Fields().ByName(protoreflect.Name(name))
	}
	listField, next, from := field(resp, portion.GetOf()), field(resp, portion.GetNext()), field(req, portion.GetFrom())
	req.Set(field(req, portion.GetLimit()), protoreflect.ValueOfInt32(wholeListPageSize))
	all := resp.NewField(listField).List()
	for {
		proto.Reset(resp.Interface())
		if err := call(req.Interface()); err != nil {
			return err
		}
		items := resp.Get(listField).List()
		for i := range items.Len() {
			all.Append(items.Get(i))
		}
		cursor := resp.Get(next)
		if cursor.String() == "" || cursor.String() == req.Get(from).String() {
			break
		}
		req.Set(from, cursor)
	}
	resp.Set(listField, protoreflect.ValueOfList(all))
	resp.Clear(next)
	return nil
}
