package main

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"fleet/cmd/internal/option"
)

const apiDescription = "Fleet manages AI coding agents the way a cluster manager manages machines: create agents, hand them tasks, " +
	"follow them, get results and keep the history. The same methods are tools on MCP (/mcp) and methods on gRPC.\n\n" +
	"Keys are snake_case, enum values lower-case, times RFC 3339 in UTC. Unknown fields and unknown query parameters are " +
	"errors. Every error has the same form: see the schema Error."

// builder builds one document for all services.
type builder struct {
	doc     *openapi3.T
	options option.Reader
	reasons *protogen.Enum  // fleet.v1.ErrorReason; nil if the files do not define it
	usedIDs map[string]bool // the operation ids that are already used
}

// newBuilder returns a builder with the parts of the document that do not depend on the services.
func newBuilder(plugin *protogen.Plugin) *builder {
	b := &builder{options: option.NewReader(plugin.Files), doc: &openapi3.T{
		OpenAPI: "3.0.3",
		Info: &openapi3.Info{
			Title: "Fleet", Version: "v1", Description: apiDescription,
			License: &openapi3.License{Name: "AGPL-3.0", URL: "https://www.gnu.org/licenses/agpl-3.0.html"},
		},
		Servers: openapi3.Servers{{URL: "/"}},
		Paths:   openapi3.NewPaths(),
		Components: &openapi3.Components{
			Schemas:   openapi3.Schemas{},
			Responses: openapi3.ResponseBodies{},
			SecuritySchemes: openapi3.SecuritySchemes{"bearer": {Value: &openapi3.SecurityScheme{
				Type: "http", Scheme: "bearer",
				Description: "A token of `fleet token create`, of Coder or of an OpenID Connect issuer: the server's setting auth says which it accepts. " +
					"With auth none, calls need no token.",
			}}},
		},
		Security: openapi3.SecurityRequirements{{"bearer": {}}, {}},
	}}
	for _, file := range plugin.Files {
		for _, e := range file.Enums {
			if e.Desc.FullName() == "fleet.v1.ErrorReason" {
				b.reasons = e
			}
		}
	}
	b.addErrors()
	return b
}

// addErrors adds the schema of the error object, and the error response that every operation refers to.
func (b *builder) addErrors() {
	reason := openapi3.NewStringSchema()
	reason.Description = "Why the call failed, for programs."
	if b.reasons != nil {
		reason.Description += valueList(b.reasons)
	}
	message := openapi3.NewStringSchema()
	message.Description = "What is wrong and what to do, for people."
	details := openapi3.NewObjectSchema().WithNullable()
	details.Description = "The metadata that the reason's description names, and retry_after_seconds if it is known; null if there is neither."
	details.AdditionalProperties = openapi3.AdditionalProperties{Schema: openapi3.NewSchema().NewRef()}
	object := openapi3.NewObjectSchema().WithProperty("error", reason).WithProperty("message", message).WithProperty("details", details)
	object.Description = "Error is the JSON object of every error."
	object.Required = []string{"error", "message", "details"}
	b.doc.Components.Schemas["Error"] = object.NewRef()

	retry := &openapi3.Header{Parameter: openapi3.Parameter{
		Description: "Seconds after which to try again, where that is known.",
		Schema:      openapi3.NewIntegerSchema().NewRef(),
	}}
	response := openapi3.NewResponse().WithDescription("The call failed.").WithJSONSchemaRef(schemaRef("Error"))
	response.Headers = openapi3.Headers{"Retry-After": {Value: retry}}
	b.doc.Components.Responses["Error"] = &openapi3.ResponseRef{Value: response}
}

// addService adds the methods of the service that have an HTTP binding.
func (b *builder) addService(s *protogen.Service) error {
	b.doc.Tags = append(b.doc.Tags, &openapi3.Tag{Name: s.GoName, Description: commentText(s.Comments)})
	for _, m := range s.Methods {
		rule, _ := proto.GetExtension(m.Desc.Options(), annotations.E_Http).(*annotations.HttpRule)
		if rule.GetPattern() == nil {
			continue
		}
		if err := b.addMethod(m, rule); err != nil {
			return fmt.Errorf("%s: %w", m.Desc.FullName(), err)
		}
	}
	return nil
}

// newOperationID returns the id of the method's operation. It is the name of the method's MCP tool. If another method
// already uses this id, the service's name is put before it.
func (b *builder) newOperationID(m *protogen.Method) string {
	id := option.ToolName(m.GoName)
	if b.usedIDs[id] {
		id = option.ToolName(m.Parent.GoName) + "_" + id
	}
	if b.usedIDs == nil {
		b.usedIDs = map[string]bool{}
	}
	b.usedIDs[id] = true
	return id
}

// addMethod adds the operation of a method.
func (b *builder) addMethod(m *protogen.Method, rule *annotations.HttpRule) error {
	verb, path := binding(rule)
	if verb == "" {
		return errors.New("its google.api.http option has an unsupported method: use get, post, put, patch or delete")
	}
	if body := rule.GetBody(); (body != "" && body != "*") || len(rule.GetAdditionalBindings()) > 0 || rule.GetResponseBody() != "" {
		return errors.New(`its google.api.http option is not supported: use one binding, with body "*" or without a body`)
	}
	op := openapi3.NewOperation()
	op.OperationID = b.newOperationID(m)
	op.Tags = []string{m.Parent.GoName}
	op.Extensions = map[string]any{"x-grpc-method": string(m.Desc.FullName())}
	op.Summary, op.Description = splitSummary(commentText(m.Comments))

	pathNames := pathFields(path)
	for _, name := range pathNames {
		if err := b.addParameter(op, m.Input, name, openapi3.NewPathParameter(name)); err != nil {
			return err
		}
	}
	if rule.GetBody() == "*" {
		b.setBody(op, m.Input, pathNames)
	} else {
		for _, f := range m.Input.Fields {
			name := string(f.Desc.Name())
			if slices.Contains(pathNames, name) {
				continue
			}
			if err := b.addParameter(op, m.Input, name, openapi3.NewQueryParameter(name)); err != nil {
				return err
			}
		}
	}
	if err := b.setResponses(op, m, verb); err != nil {
		return err
	}
	item := b.doc.Paths.Value(path)
	if item == nil {
		item = &openapi3.PathItem{}
		b.doc.Paths.Set(path, item)
	}
	item.SetOperation(verb, op)
	return nil
}

// addParameter adds the named field of the request as a parameter of the path or the query.
func (b *builder) addParameter(op *openapi3.Operation, in *protogen.Message, name string, p *openapi3.Parameter) error {
	i := slices.IndexFunc(in.Fields, func(f *protogen.Field) bool { return string(f.Desc.Name()) == name })
	if i < 0 {
		return fmt.Errorf("the path names %s, which is not a field of %s", name, in.Desc.Name())
	}
	f := in.Fields[i]
	p.Schema = b.value(f, inRequest)
	p.Description = commentText(f.Comments)
	if p.Schema.Value != nil {
		p.Schema.Value.Description = ""
	}
	p.Required = p.In == openapi3.ParameterInPath || isRequired(f)
	op.AddParameter(p)
	return nil
}

// setBody adds a request body with the request's fields that are not in the path.
func (b *builder) setBody(op *openapi3.Operation, in *protogen.Message, pathNames []string) {
	schema := b.object(in, inRequest, pathNames)
	b.doc.Components.Schemas[string(in.Desc.Name())] = schema.NewRef()
	body := openapi3.NewRequestBody().WithJSONSchemaRef(schemaRef(string(in.Desc.Name())))
	body.Required = len(schema.Required) > 0
	op.RequestBody = &openapi3.RequestBodyRef{Value: body}
}

// setResponses adds the responses of the method.
func (b *builder) setResponses(op *openapi3.Operation, m *protogen.Method, verb string) error {
	ok := openapi3.NewResponse().WithDescription(commentText(m.Output.Comments))
	op.Responses = openapi3.NewResponses(openapi3.WithStatus(http.StatusOK, &openapi3.ResponseRef{Value: ok}), openapi3.WithName("4XX", nil), openapi3.WithName("5XX", nil))
	if err := b.setContent(op, ok, m); err != nil {
		return err
	}
	if verb == http.MethodGet && isList(m) {
		addHeader(op, "If-None-Match", "The ETag of a list that the client has. If it is still the same, the answer is 304. Times at which places were "+
			"last listed do not count.")
		tag := &openapi3.Header{Parameter: openapi3.Parameter{Description: "Identifies the list, for If-None-Match.", Schema: openapi3.NewStringSchema().NewRef()}}
		ok.Headers = openapi3.Headers{"ETag": &openapi3.HeaderRef{Value: tag}}
		notModified := openapi3.NewResponse().WithDescription("The client has this list.")
		op.Responses.Set(strconv.Itoa(http.StatusNotModified), &openapi3.ResponseRef{Value: notModified})
	}
	for _, status := range []string{"4XX", "5XX"} {
		op.Responses.Set(status, &openapi3.ResponseRef{Ref: "#/components/responses/Error", Value: b.doc.Components.Responses["Error"].Value})
	}
	return nil
}

// setContent sets the content of the successful response. It depends on what the method returns: a message, a stream or a
// download.
func (b *builder) setContent(op *openapi3.Operation, ok *openapi3.Response, m *protogen.Method) error {
	schema := schemaRef(string(m.Output.Desc.Name()))
	download := m.Output.Desc.FullName() == "google.api.HttpBody"
	if !download {
		b.ensureComponent(m.Output, inResponse)
	}
	switch {
	case download && b.options.Text(m.Desc, "fleet.v1.portion", "from") != "":
		addHeader(op, "Range", "Asks for a part, as in `bytes=1000-`. If-Range with an ETag asks for it only when the content is still the same.")
		ok.WithDescription("The content as it is: text in UTF-8, or any bytes. The ETag is its SHA-256; HEAD gives the size.")
		binary := openapi3.NewStringSchema().WithFormat("binary")
		ok.Content = openapi3.Content{
			"text/plain":               openapi3.NewMediaType().WithSchema(openapi3.NewStringSchema()),
			"application/octet-stream": openapi3.NewMediaType().WithSchema(binary),
		}
		partial := openapi3.NewResponse().WithDescription("The part that Range asks for.").WithContent(ok.Content)
		op.Responses.Set(strconv.Itoa(http.StatusPartialContent), &openapi3.ResponseRef{Value: partial})
	case download:
		ok.WithDescription("The content, with `Content-Encoding: gzip`. Without `gzip` in Accept-Encoding the answer is 406.")
		ok.Content = openapi3.Content{"text/plain": openapi3.NewMediaType().WithSchema(openapi3.NewStringSchema())}
	case b.options.Bool(m.Desc, option.LastIsResult):
		kind, last := b.options.LastMarker(m.Output)
		if last == nil {
			return fmt.Errorf("%s needs an enum field in the response with a value that marks the last message", option.LastIsResult)
		}
		ok.WithDescription(fmt.Sprintf("%s\n\nWith `Accept: text/event-stream` the answer is a stream of server-sent events, one for each message. "+
			"`event` is the %s of the message, and `data` is the message as JSON. The message with the %s `%s` is the result. `event: error` "+
			"has an error object. Without this header, the answer is only the result.", commentText(m.Output.Comments), kind.Desc.Name(), kind.Desc.Name(), last.Desc.Name()))
		ok.Content = openapi3.Content{
			"application/json":  openapi3.NewMediaType().WithSchemaRef(schema),
			"text/event-stream": openapi3.NewMediaType().WithSchema(eventsSchema()),
		}
	case m.Desc.IsStreamingServer():
		addHeader(op, "Last-Event-ID", "The cursor that a browser's EventSource sends when it connects again. It overrides the parameter cursor.")
		ok.WithDescription(commentText(m.Output.Comments) + "\n\n" +
			"With `Accept: text/event-stream` the answer is a stream of server-sent events, one for each event of the fleet. `id` is its " +
			"cursor, `event` its type, and `data` the event as JSON. `event: error` has an error object. `event: end` says that the server " +
			"has sent everything that was requested. Without this header, each line of the answer is a JSON object.")
		ok.Content = openapi3.Content{
			"application/x-ndjson": openapi3.NewMediaType().WithSchemaRef(schema),
			"text/event-stream":    openapi3.NewMediaType().WithSchema(eventsSchema()),
		}
	default:
		ok.Content = openapi3.NewContentWithJSONSchemaRef(schema)
	}
	return nil
}

// addHeader adds a header that a request may have.
func addHeader(op *openapi3.Operation, name, description string) {
	header := openapi3.NewHeaderParameter(name)
	header.Description = description
	header.Schema = openapi3.NewStringSchema().NewRef()
	op.AddParameter(header)
}

// isList reports whether the first field of the method's response is a list of messages. Package rest adds an ETag to such responses.
func isList(m *protogen.Method) bool {
	if m.Desc.IsStreamingServer() || len(m.Output.Fields) == 0 {
		return false
	}
	first := m.Output.Fields[0].Desc
	return first.IsList() && first.Kind() == protoreflect.MessageKind
}

func eventsSchema() *openapi3.Schema {
	s := openapi3.NewStringSchema()
	s.Description = "Server-sent events."
	return s
}

// binding returns the HTTP method and the path of the rule. The verb is "" if the rule has a custom HTTP method.
func binding(rule *annotations.HttpRule) (verb, path string) {
	r := rule.ProtoReflect()
	pattern := r.WhichOneof(r.Descriptor().Oneofs().ByName("pattern"))
	if pattern == nil || pattern.Kind() != protoreflect.StringKind {
		return "", ""
	}
	return strings.ToUpper(string(pattern.Name())), r.Get(pattern).String() // the fields are named after the HTTP methods
}

var pathField = regexp.MustCompile(`\{(\w+)\}`)

// pathFields returns the names of the fields in the path.
func pathFields(path string) []string {
	var names []string
	for _, m := range pathField.FindAllStringSubmatch(path, -1) {
		names = append(names, m[1])
	}
	return names
}

// splitSummary returns the first sentence of a comment, without its full stop, and the rest. If there is only one sentence, the
// rest is the whole comment.
func splitSummary(s string) (summary, rest string) {
	if summary, rest, ok := strings.Cut(s, ". "); ok {
		return summary, strings.TrimSpace(rest)
	}
	return strings.TrimSuffix(s, "."), s
}
