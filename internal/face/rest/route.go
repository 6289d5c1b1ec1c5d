package rest

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"fleet/internal/face/wire"
)

// route is the REST binding of one method. The generated code routes requests but does not expose its routes, and the
// face needs them to name a field, the nearest route, or the methods that a path accepts.
type route struct {
	verb       string   // HTTP method
	template   string   // path, with {field} in place of each field
	pathFields []string // request fields that are in the path
	hasBody    bool     // the other fields are in the body; otherwise they are in the query
	isList     bool     // a GET whose response is a list: the first field of the response is a list of messages
	method     protoreflect.MethodDescriptor
	request    protoreflect.MessageType
	response   protoreflect.MessageType
}

// routesOf returns the routes of all services in the files, ordered by path and method.
func routesOf(files ...protoreflect.FileDescriptor) ([]*route, error) {
	var routes []*route
	for _, file := range files {
		for i := range file.Services().Len() {
			methods := file.Services().Get(i).Methods()
			for j := range methods.Len() {
				rt, err := routeOf(methods.Get(j))
				if err != nil {
					return nil, fmt.Errorf("rest: the binding of %s: %w", methods.Get(j).FullName(), err)
				}
				routes = append(routes, rt)
			}
		}
	}
	slices.SortFunc(routes, func(a, b *route) int {
		return strings.Compare(a.template+" "+a.verb, b.template+" "+b.verb)
	})
	return routes, nil
}

func routeOf(m protoreflect.MethodDescriptor) (*route, error) {
	rule, _ := proto.GetExtension(m.Options(), annotations.E_Http).(*annotations.HttpRule)
	pattern := rule.ProtoReflect().WhichOneof(rule.ProtoReflect().Descriptor().Oneofs().ByName("pattern"))
	if pattern == nil || pattern.Kind() != protoreflect.StringKind {
		return nil, errors.New("the proto has no HTTP rule for it")
	}
	// The fields of an HttpRule are named after the HTTP methods.
	rt := &route{
		verb: strings.ToUpper(string(pattern.Name())), template: rule.ProtoReflect().Get(pattern).String(), hasBody: rule.GetBody() == "*", method: m,
	}
	parts := strings.Split(rt.template, "{")
	ok := !strings.ContainsAny(parts[0], "}*")
	for _, part := range parts[1:] {
		field, rest, closed := strings.Cut(part, "}")
		ok = ok && closed && field != "" && !strings.ContainsAny(field, "=*") && !strings.ContainsAny(rest, "}*")
		rt.pathFields = append(rt.pathFields, field)
	}
	if !ok {
		return nil, fmt.Errorf("%s has a field of more than one segment", rt.template)
	}
	out := m.Output().Fields()
	rt.isList = rt.verb == http.MethodGet && !m.IsStreamingServer() && out.Len() > 0 && out.Get(0).IsList() && out.Get(0).Kind() == protoreflect.MessageKind
	var err, responseErr error
	rt.request, err = protoregistry.GlobalTypes.FindMessageByName(m.Input().FullName())
	rt.response, responseErr = protoregistry.GlobalTypes.FindMessageByName(m.Output().FullName())
	return rt, errors.Join(err, responseErr)
}

// verbs returns the HTTP methods that the route accepts.
func (rt *route) verbs() []string {
	if rt.isDownload() && rt.verb == http.MethodGet {
		return []string{http.MethodGet, http.MethodHead}
	}
	return []string{rt.verb}
}

// key returns the verb and the route's path in the gateway's notation.
func (rt *route) key(verb string) string {
	return verb + " " + strings.ReplaceAll(rt.template, "}", "=*}")
}

// fullMethod returns the gRPC name of the method: "/package.Service/Method".
func (rt *route) fullMethod() string {
	return "/" + string(rt.method.Parent().FullName()) + "/" + string(rt.method.Name())
}

func (rt *route) String() string { return rt.verb + " " + rt.template }

// field returns the request's field with the name; nil if there is none.
func (rt *route) field(name string) protoreflect.FieldDescriptor {
	return rt.method.Input().Fields().ByName(protoreflect.Name(name))
}

// nonPathFields returns the names of the request's fields that are not in the path.
func (rt *route) nonPathFields() []string {
	var names []string
	fields := rt.method.Input().Fields()
	for i := range fields.Len() {
		if name := string(fields.Get(i).Name()); !slices.Contains(rt.pathFields, name) {
			names = append(names, name)
		}
	}
	return names
}

// requiredFields returns the names of the request's required fields that are not in the path.
func (rt *route) requiredFields() []string {
	return slices.DeleteFunc(rt.nonPathFields(), func(name string) bool {
		behaviours, _ := proto.GetExtension(rt.field(name).Options(), annotations.E_FieldBehavior).([]annotations.FieldBehavior)
		return !slices.Contains(behaviours, annotations.FieldBehavior_REQUIRED)
	})
}

// fillFrom returns the template with its fields replaced by the segments of a real path, as far as the path has them. The
// result equals the path if and only if the route matches the path.
func (rt *route) fillFrom(path string) string {
	segments, pathSegments := strings.Split(rt.template, "/"), strings.Split(path, "/")
	for i, s := range segments {
		if !strings.HasPrefix(s, "{") || i >= len(pathSegments) {
			continue
		}
		value, action := pathSegments[i], s[strings.Index(s, "}")+1:]
		if action != "" {
			if colon := strings.LastIndex(value, ":"); colon >= 0 {
				value = value[:colon]
			}
		}
		if value != "" {
			segments[i] = value + action
		}
	}
	return strings.Join(segments, "/")
}

// verbsOf returns the HTTP methods that the path accepts.
func (f *face) verbsOf(path string) []string {
	var verbs []string
	for _, rt := range f.routes {
		if rt.fillFrom(path) == path {
			verbs = append(verbs, rt.verbs()...)
		}
	}
	slices.Sort(verbs)
	return slices.Compact(verbs)
}

// nearestRoute returns the route that the client probably meant, written with the client's values, or "". Routes with the verb come first.
func (f *face) nearestRoute(verb, path string) string {
	for _, sameVerb := range []bool{true, false} {
		var paths []string
		verbs := map[string]string{}
		for _, rt := range f.routes {
			p := rt.fillFrom(path)
			if (rt.verb == verb) == sameVerb && p != path {
				paths = append(paths, p)
				verbs[p] = rt.verb
			}
		}
		if near := wire.Nearest(path, paths); near != "" {
			if unescaped, err := url.PathUnescape(near); err == nil {
				return verbs[near] + " " + unescaped
			}
		}
	}
	return ""
}
