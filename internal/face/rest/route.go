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

// route is the REST binding of one method, read from its google.api.http option.
type route struct {
	verb     string   // HTTP method
	template string   // path, with {field} in place of each field
	segments []string // of the template
	fields   []string // request fields that are in the path
	hasBody  bool     // the other fields are in the body; otherwise they are in the query
	list     bool     // the answer has an entity tag
	method   protoreflect.MethodDescriptor
	name     string // the gRPC name of the method: "/package.Service/Method"
	request  protoreflect.MessageType
	answer   protoreflect.MessageType
	handle   handler
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
	rt := &route{hasBody: rule.GetBody() == "*", method: m, name: "/" + string(m.Parent().FullName()) + "/" + string(m.Name())}
	switch p := rule.GetPattern().(type) {
	case *annotations.HttpRule_Get:
		rt.verb, rt.template = http.MethodGet, p.Get
	case *annotations.HttpRule_Post:
		rt.verb, rt.template = http.MethodPost, p.Post
	case *annotations.HttpRule_Put:
		rt.verb, rt.template = http.MethodPut, p.Put
	case *annotations.HttpRule_Patch:
		rt.verb, rt.template = http.MethodPatch, p.Patch
	case *annotations.HttpRule_Delete:
		rt.verb, rt.template = http.MethodDelete, p.Delete
	default:
		return nil, errors.New("the proto has no HTTP rule for it")
	}
	parts := strings.Split(rt.template, "{")
	ok := !strings.ContainsAny(parts[0], "}*")
	for _, part := range parts[1:] {
		field, rest, closed := strings.Cut(part, "}")
		ok = ok && closed && field != "" && !strings.ContainsAny(field, "=*") && !strings.ContainsAny(rest, "}*")
		rt.fields = append(rt.fields, field)
	}
	if !ok {
		return nil, fmt.Errorf("%s has a field of more than one segment", rt.template)
	}
	for _, name := range rt.fields {
		if field := rt.field(name); field == nil || field.Kind() != protoreflect.StringKind {
			return nil, fmt.Errorf("%s has %s, which is not a text of the request", rt.template, name)
		}
	}
	rt.segments, rt.list = strings.Split(rt.template, "/"), rt.isList()
	var err error
	if rt.request, err = protoregistry.GlobalTypes.FindMessageByName(m.Input().FullName()); err != nil {
		return nil, err
	}
	rt.answer, err = protoregistry.GlobalTypes.FindMessageByName(m.Output().FullName())
	return rt, err
}

// verbs returns the HTTP methods that the route accepts.
func (rt *route) verbs() []string {
	if rt.isDownload() && rt.verb == http.MethodGet {
		return []string{http.MethodGet, http.MethodHead}
	}
	return []string{rt.verb}
}

func (rt *route) String() string { return rt.verb + " " + rt.template }

// field returns the descriptor of a field of the request.
func (rt *route) field(name string) protoreflect.FieldDescriptor {
	return rt.method.Input().Fields().ByName(protoreflect.Name(name))
}

// rest returns the names of the request's fields that are not in the path.
func (rt *route) rest() []string {
	var names []string
	fields := rt.method.Input().Fields()
	for i := range fields.Len() {
		if name := string(fields.Get(i).Name()); !slices.Contains(rt.fields, name) {
			names = append(names, name)
		}
	}
	return names
}

// required returns the names of the required fields that are not in the path.
func (rt *route) required() []string {
	return slices.DeleteFunc(rt.rest(), func(name string) bool {
		behaviours, _ := proto.GetExtension(rt.field(name).Options(), annotations.E_FieldBehavior).([]annotations.FieldBehavior)
		return !slices.Contains(behaviours, annotations.FieldBehavior_REQUIRED)
	})
}

// match returns the values of the fields in the path, in the order of rt.fields. It reports whether the path fits the
// template. The path is as the client escaped it, and the values are unescaped.
func (rt *route) match(path []string) (values []string, ok bool) {
	if len(path) != len(rt.segments) {
		return nil, false
	}
	for i, s := range rt.segments {
		if !strings.HasPrefix(s, "{") {
			if s != path[i] {
				return nil, false
			}
			continue
		}
		value, ok := path[i], !strings.HasPrefix(path[i], ":")
		if action := s[strings.IndexByte(s, '}')+1:]; action != "" {
			value, ok = strings.CutSuffix(value, action)
			ok = ok && value != ""
		}
		value, err := url.PathUnescape(value)
		if !ok || err != nil {
			return nil, false
		}
		values = append(values, value)
	}
	return values, true
}

// find returns the route of a request and the values of its fields in the path. If no route with the request's HTTP
// method fits the path, it returns the HTTP methods of the routes that do.
func (f *face) find(r *http.Request) (_ *route, values, verbs []string) {
	path := strings.Split(r.URL.EscapedPath(), "/")
	for _, rt := range f.routes {
		values, ok := rt.match(path)
		switch {
		case !ok:
		case slices.Contains(rt.verbs(), r.Method):
			return rt, values, nil
		default:
			verbs = append(verbs, rt.verbs()...)
		}
	}
	slices.Sort(verbs)
	return nil, nil, slices.Compact(verbs)
}

// filled returns the template with its fields replaced by the segments of a path, as far as the path has them.
func (rt *route) filled(path string) string {
	segments, given := slices.Clone(rt.segments), strings.Split(path, "/")
	for i, s := range segments {
		if !strings.HasPrefix(s, "{") || i >= len(given) {
			continue
		}
		value, action := given[i], s[strings.Index(s, "}")+1:]
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

// nearest returns the route that the client probably meant, written with the client's values, or "".
func (f *face) nearest(verb, path string) string {
	for _, same := range []bool{true, false} {
		var paths []string
		verbs := map[string]string{}
		for _, rt := range f.routes {
			p := rt.filled(path)
			if (rt.verb == verb) == same && p != path {
				paths = append(paths, p)
				verbs[p] = rt.verb
			}
		}
		if near := wire.Nearest(path, paths); near != "" {
			if plain, err := url.PathUnescape(near); err == nil {
				return verbs[near] + " " + plain
			}
		}
	}
	return ""
}
