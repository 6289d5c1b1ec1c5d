package cli

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// pager answers every list with pages of empty items. total is the number of items on all pages together.
type pager struct {
	grpc.ClientConnInterface
	total, calls int
}

func (p *pager) Invoke(_ context.Context, method string, args, reply any, _ ...grpc.CallOption) error {
	p.calls++
	l := portionOf(descriptorOf(method))
	req, resp := args.(proto.Message).ProtoReflect(), reply.(proto.Message).ProtoReflect()
	size, from := 20, 0
	if f := req.Descriptor().Fields().ByName(protoreflect.Name(l.GetLimit())); req.Has(f) {
		size = int(req.Get(f).Int())
	}
	if text := req.Get(req.Descriptor().Fields().ByName(protoreflect.Name(l.GetFrom()))).String(); text != "" {
		from, _ = strconv.Atoi(text)
	}
	items := resp.Mutable(resp.Descriptor().Fields().ByName(protoreflect.Name(l.GetOf()))).List()
	for range min(size, p.total-from) {
		items.Append(items.NewElement())
	}
	if from += size; from < p.total {
		resp.Set(resp.Descriptor().Fields().ByName(protoreflect.Name(l.GetNext())), protoreflect.ValueOfString(strconv.Itoa(from)))
	}
	return nil
}

// TestQuietListsAreReadToTheEnd reads every list of the API. With --quiet it must be read to its end, unless the request asks
// for a part. Otherwise the answer must be that of one call.
func TestQuietListsAreReadToTheEnd(t *testing.T) {
	t.Parallel()
	lists := 0
	forEachMethod(func(d protoreflect.MethodDescriptor) {
		l := portionOf(d)
		if of := d.Output().Fields().ByName(protoreflect.Name(l.GetOf())); l.GetNext() == "" || of == nil || !of.IsList() || of.Message() == nil {
			return
		}
		lists++
		const wholeList, onePage = true, false
		read := func(whole bool, limit int32) (items, calls int) {
			p := &pager{total: 250}
			c := &conn{ClientConnInterface: p, readsWholeLists: whole}
			in, err := protoregistry.GlobalTypes.FindMessageByName(d.Input().FullName())
			require.NoError(t, err)
			out, err := protoregistry.GlobalTypes.FindMessageByName(d.Output().FullName())
			require.NoError(t, err)
			req, resp := in.New(), out.New()
			if limit > 0 {
				req.Set(d.Input().Fields().ByName(protoreflect.Name(l.GetLimit())), protoreflect.ValueOfInt32(limit))
			}
			before := proto.Clone(req.Interface())
			require.NoError(t, c.Invoke(t.Context(), fmt.Sprintf("/%s/%s", d.Parent().FullName(), d.Name()), req.Interface(), resp.Interface()))
			require.True(t, proto.Equal(before, req.Interface()), "the caller may use the request again: %s", d.FullName())
			require.Equal(t, whole && limit == 0, !resp.Has(d.Output().Fields().ByName(protoreflect.Name(l.GetNext()))), d.FullName())
			return resp.Get(d.Output().Fields().ByName(protoreflect.Name(l.GetOf()))).List().Len(), p.calls
		}
		items, calls := read(wholeList, 0)
		require.Equal(t, []int{250, 3}, []int{items, calls}, d.FullName())
		items, calls = read(wholeList, 7)
		require.Equal(t, []int{7, 1}, []int{items, calls}, d.FullName())
		items, calls = read(onePage, 0)
		require.Equal(t, []int{20, 1}, []int{items, calls}, d.FullName())
	})
	require.Greater(t, lists, 10)
}
