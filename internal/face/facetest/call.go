package facetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	fleetv1 "fleet/gen/fleet/v1"
)

var wordBoundary = regexp.MustCompile(`([a-z])([A-Z])`)

// ToolName returns the name of the tool that calls the method: the name in snake_case.
func ToolName[Name ~string](method Name) string {
	return strings.ToLower(wordBoundary.ReplaceAllString(string(method), "${1}_${2}"))
}

// Invoke calls a method. If the method responds with a stream, Invoke merges all messages into the response. With the option
// last_is_result, the response is only the last message.
func Invoke(ctx context.Context, conn grpc.ClientConnInterface, m protoreflect.MethodDescriptor, request, response proto.Message) error {
	name := fmt.Sprintf("/%s/%s", m.Parent().FullName(), m.Name())
	if !m.IsStreamingServer() {
		return conn.Invoke(ctx, name, request, response)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, name)
	if err != nil {
		return err
	}
	if err := errors.Join(stream.SendMsg(request), stream.CloseSend()); err != nil {
		return err
	}
	last, _ := proto.GetExtension(m.Options(), fleetv1.E_LastIsResult).(bool)
	for {
		part := response.ProtoReflect().New().Interface()
		if err := stream.RecvMsg(part); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if last {
			proto.Reset(response)
		}
		proto.Merge(response, part)
	}
}

// Binding returns the HTTP method and the path of a method, with {field} in place of each field in the path. It returns empty
// texts if the method has no HTTP binding.
func Binding(m protoreflect.MethodDescriptor) (verb, path string) {
	rule, _ := proto.GetExtension(m.Options(), annotations.E_Http).(*annotations.HttpRule)
	r := rule.ProtoReflect()
	pattern := r.WhichOneof(r.Descriptor().Oneofs().ByName("pattern"))
	if pattern == nil {
		return "", ""
	}
	return strings.ToUpper(string(pattern.Name())), r.Get(pattern).String() // the fields are named after the HTTP methods
}

var pathField = regexp.MustCompile(`\{(\w+)\}`)

// NewRequest returns the HTTP request that calls a method with the arguments, which are decoded JSON. base is the URL of the
// server.
func NewRequest(ctx context.Context, base string, m protoreflect.MethodDescriptor, args map[string]any) (*http.Request, error) {
	verb, path := Binding(m)
	rest := maps.Clone(args)
	path = pathField.ReplaceAllStringFunc(path, func(field string) string {
		name := strings.Trim(field, "{}")
		s, _ := rest[name].(string)
		delete(rest, name)
		return url.PathEscape(s)
	})
	var body io.Reader
	if verb == http.MethodPost {
		data, err := json.Marshal(rest)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(data)
	} else if query, err := queryOf(rest); err != nil {
		return nil, err
	} else if query != "" {
		path += "?" + query
	}
	r, err := http.NewRequestWithContext(ctx, verb, base+path, body)
	if err == nil && body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	return r, err
}

func queryOf(args map[string]any) (string, error) {
	values := url.Values{}
	for name, v := range args {
		list, ok := v.([]any)
		if !ok {
			list = []any{v}
		}
		for _, item := range list {
			switch item := item.(type) {
			case nil:
			case string:
				values.Add(name, item)
			case json.Number, bool, int, float64:
				values.Add(name, fmt.Sprint(item))
			default:
				return "", fmt.Errorf("a query cannot express %s=%v", name, item)
			}
		}
	}
	return values.Encode(), nil
}
