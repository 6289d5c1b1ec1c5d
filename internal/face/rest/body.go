package rest

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/protobuf/proto"

	"fleet/internal/face/wire"
)

// body is the body of a request to a known route. The gateway's handlers read it with codec.
type body struct {
	io.ReadCloser
	route        *route
	pathValues   map[string]string
	size         int64         // the length that the client declares, in bytes; -1 if it declares none
	queryRequest proto.Message // the request with the fields of the query only; nil if there is no query
	err          error         // the error of read; kept because the gateway passes on only its text
}

// maxPreallocated is the largest memory, in bytes, that is reserved for a body before it arrives.
const maxPreallocated = 64 << 10

// read reads the body into the request message. It refuses a body that contradicts the path.
func (b *body) read(request proto.Message) error {
	rt := b.route
	buffer := bytes.NewBuffer(make([]byte, 0, min(max(b.size, 0), maxPreallocated)+bytes.MinRead))
	_, err := buffer.ReadFrom(b)
	data := buffer.Bytes()
	if err != nil {
		if sizeErr, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return newTooLargeError(sizeErr.Limit)
		}
		return wire.Invalid(wire.ReasonInvalidArgument, "", "the body ended too early")
	}
	if len(bytes.TrimSpace(data)) == 0 {
		if required := rt.requiredFields(); len(required) > 0 {
			return wire.Invalid(wire.InvalidReason(rt.field(required[0])), required[0],
				"the body is empty; send a JSON object with %s", strings.Join(required, ", "))
		}
	}
	if err := wire.Unmarshal(data, request); err != nil {
		return err
	}
	for _, name := range rt.pathFields {
		field, m := rt.field(name), request.ProtoReflect()
		if bodyValue := m.Get(field).String(); m.Has(field) && bodyValue != b.pathValues[name] {
			return wire.Invalid(wire.InvalidReason(field), name, "%s is %q in the path and %q in the body; leave it out of the body",
				name, wire.Shorten(b.pathValues[name]), wire.Shorten(bodyValue))
		}
	}
	return nil
}

// readRequest reads the whole request message: the query or the body, and the fields of the path.
func (b *body) readRequest() (proto.Message, error) {
	request := b.queryRequest
	if request == nil {
		request = b.route.request.New().Interface()
	}
	if b.route.hasBody {
		if err := b.read(request); err != nil {
			return nil, err
		}
	}
	for _, name := range b.route.pathFields {
		if err := runtime.PopulateFieldFromPath(request, name, b.pathValues[name]); err != nil {
			return nil, wire.Invalid(wire.InvalidReason(b.route.field(name)), name, "%s in the path cannot be used", name)
		}
	}
	return request, nil
}

// readRequest reads the request message of r for a handler of this package. It can read it only once. The gateway's handlers read it themselves.
func readRequest(r *http.Request) (proto.Message, error) {
	b, ok := r.Body.(*body)
	if !ok {
		return nil, errNotMessage
	}
	return b.readRequest()
}

// newTooLargeError returns the error for a body that is larger than the limit.
func newTooLargeError(limit int64) error {
	return &runtime.HTTPStatusError{HTTPStatus: http.StatusRequestEntityTooLarge, Err: wire.Invalid(wire.ReasonInvalidArgument, "",
		"the body is larger than the %d bytes that the server reads; send less", limit)}
}

// checkContentType returns an error if the body is compressed, or if its content type is not JSON. A body without a content type counts as
// JSON, and so does a JSON object with the content type of curl -d.
func checkContentType(r *http.Request) error {
	if r.ContentLength == 0 {
		return nil
	}
	refuse := func(format string, args ...any) error {
		return &runtime.HTTPStatusError{HTTPStatus: http.StatusUnsupportedMediaType, Err: wire.Invalid(wire.ReasonInvalidArgument, "", format, args...)}
	}
	if coding := r.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return refuse("the body is encoded as %q; send it as it is, without Content-Encoding", wire.Shorten(coding))
	}
	content := r.Header.Get("Content-Type")
	media, _, err := mime.ParseMediaType(content)
	if media == curlMediaType && beginsAsObject(r) {
		r.Header.Set("Content-Type", "application/json")
		return nil
	}
	if content != "" && (err != nil || media != "application/json" && !strings.HasSuffix(media, "+json")) {
		return refuse("the body is of the type %q; send JSON, with `Content-Type: application/json`", wire.Shorten(content))
	}
	return nil
}

// curlMediaType is the content type that curl -d sends by default. A web page of another origin may send it without a
// preflight request, but inbound.Guard has refused such requests by now.
const curlMediaType = "application/x-www-form-urlencoded"

// beginsAsObject reports whether the body begins as a JSON object does, after at most 511 bytes of white space. It replaces r.Body by
// a reader that still begins with the first byte.
func beginsAsObject(r *http.Request) bool {
	b := bufio.NewReaderSize(r.Body, 512)
	prefix, _ := b.Peek(1) // an empty or broken body is reported when it is read
	for n := 1; n < 512 && len(prefix) == n && strings.ContainsRune(" \t\r\n", rune(prefix[n-1])); n++ {
		prefix, _ = b.Peek(n + 1)
	}
	r.Body = struct {
		io.Reader
		io.Closer
	}{b, r.Body}
	return strings.HasPrefix(strings.TrimLeft(string(prefix), " \t\r\n"), "{")
}

// refuseBody returns an error if the request has a body. It is for routes whose fields are in the query, which would ignore a body.
func (rt *route) refuseBody(r *http.Request) error {
	if n, _ := io.ReadFull(r.Body, make([]byte, 1)); n == 0 {
		return nil
	}
	if fields := rt.nonPathFields(); len(fields) > 0 {
		return wire.Invalid(wire.ReasonInvalidArgument, "", "%s takes no body; put %s into the query", rt, strings.Join(fields, ", "))
	}
	return wire.Invalid(wire.ReasonInvalidArgument, "", "%s takes no body; send none", rt)
}
