package cli

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	fleetv1 "fleet/gen/fleet/v1"
)

// wholeLimit is the number of items of each answer while a list is read to its end.
const wholeLimit = 100

// listOf returns the list that the call reads from its beginning. It returns nil if the method does not return parts of a
// list, or if the request already asks for a certain part.
func listOf(method string, args any) *fleetv1.Portion {
	req, ok := args.(proto.Message)
	d := descriptorOf(method)
	if !ok || d == nil {
		return nil
	}
	l := portionOf(d)
	if l.GetNext() == "" || l.GetFrom() == "" {
		return nil
	}
	if of := d.Output().Fields().ByName(protoreflect.Name(l.GetOf())); of == nil || !of.IsList() {
		return nil
	}
	r := req.ProtoReflect()
	for _, name := range []string{l.GetLimit(), l.GetFrom(), "page", "page_size"} {
		if f := r.Descriptor().Fields().ByName(protoreflect.Name(name)); f != nil && r.Has(f) {
			return nil
		}
	}
	return l
}

// readWhole calls do, which sends args and fills reply, until the list has ended. Then reply has all items.
func readWhole(l *fleetv1.Portion, args, reply any, do func() error) error {
	req, resp := args.(proto.Message).ProtoReflect(), reply.(proto.Message).ProtoReflect()
	field := func(m protoreflect.Message, name string) protoreflect.FieldDescriptor {
		return m.Descriptor().Fields().ByName(protoreflect.Name(name))
	}
	of, next, from := field(resp, l.GetOf()), field(resp, l.GetNext()), field(req, l.GetFrom())
	req.Set(field(req, l.GetLimit()), protoreflect.ValueOfInt32(wholeLimit))
	all := resp.NewField(of).List()
	for {
		proto.Reset(resp.Interface())
		if err := do(); err != nil {
			return err
		}
		items := resp.Get(of).List()
		for i := range items.Len() {
			all.Append(items.Get(i))
		}
		cursor := resp.Get(next)
		if cursor.String() == "" || cursor.String() == req.Get(from).String() {
			break
		}
		req.Set(from, cursor)
	}
	resp.Set(of, protoreflect.ValueOfList(all))
	resp.Clear(next)
	return nil
}
