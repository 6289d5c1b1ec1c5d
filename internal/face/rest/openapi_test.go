package rest

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	fleetv1 "fleet/gen/fleet/v1"
)

func loadDocument(t *testing.T, f *face) *openapi3.T {
	t.Helper()
	w := serve(f, "GET", "/openapi.json", "")
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	doc, err := openapi3.NewLoader().LoadFromData(w.Body.Bytes())
	require.NoError(t, err)
	return doc
}

func TestDocumentIsValidAndHasEveryRoute(t *testing.T) {
	t.Parallel()
	f := newTestFace(t, newStub(), Config{})
	doc := loadDocument(t, f)
	require.NoError(t, doc.Validate(context.Background()))
	require.Equal(t, "3.0.3", doc.OpenAPI)
	require.Equal(t, "bearer", doc.Components.SecuritySchemes["bearer"].Value.Scheme)
	operations := 0
	for _, item := range doc.Paths.Map() {
		operations += len(item.Operations())
	}
	require.Len(t, f.routes, operations)
	for _, rt := range f.routes {
		item := doc.Paths.Value(rt.template)
		require.NotNil(t, item, rt.template)
		op := item.GetOperation(rt.verb)
		require.NotNil(t, op, rt)
		require.NotEmpty(t, op.Summary)
		require.NotEmpty(t, op.Description, op.OperationID)
		for _, failed := range []string{"4XX", "5XX"} {
			require.Equal(t, "#/components/responses/Error", op.Responses.Value(failed).Ref, op.OperationID)
		}
		var inPath, inQuery []string
		for _, p := range op.Parameters {
			switch p.Value.In {
			case openapi3.ParameterInPath:
				inPath = append(inPath, p.Value.Name)
			case openapi3.ParameterInQuery:
				inQuery = append(inQuery, p.Value.Name)
			}
		}
		require.Equal(t, rt.pathFields, inPath)
		require.Equal(t, rt.hasBody, op.RequestBody != nil)
		if !rt.hasBody {
			require.Equal(t, rt.nonPathFields(), inQuery)
		}
	}
}

// TestAnswersFitTheDocument checks the answer of every method that does not stream, once with all fields set and once with only the fields
// that an answer always has. It also checks error objects.
func TestAnswersFitTheDocument(t *testing.T) {
	t.Parallel()
	s := newStub()
	f := newTestFace(t, s, Config{})
	doc := loadDocument(t, f)
	for _, full := range []bool{true, false} {
		for _, rt := range f.routes {
			if rt.method.IsStreamingServer() {
				continue
			}
			s.answerUnary = func(method string, _ proto.Message) (proto.Message, error) {
				m, err := protoregistry.GlobalTypes.FindMessageByName(rt.method.Output().FullName())
				if err != nil {
					return nil, err
				}
				answer := m.New()
				fill(answer, full)
				return answer.Interface(), nil
			}
			body := ""
			if rt.hasBody {
				body = `{"request_id":"r"}`
				if len(rt.requiredFields()) > 0 || rt.field("request_id") == nil {
					body = "{}"
				}
			}
			w := serve(f, rt.verb, strings.NewReplacer("{", "", "}", "").Replace(rt.template), body)
			require.Equal(t, http.StatusOK, w.Code, w.Body.String())
			op := doc.Paths.Value(rt.template).GetOperation(rt.verb)
			requireFits(t, op.Responses.Status(http.StatusOK).Value.Content["application/json"].Schema.Value, w.Body.Bytes())
		}
	}
	s.answerUnary = answerWith(nil, statusError(codes.Aborted, fleetv1.ErrorReason_AGENT_BUSY, "Agent papi is busy."))
	w := serve(f, "GET", "/v1/agents", "")
	op := doc.Paths.Value("/v1/agents").Get
	requireFits(t, op.Responses.Value("4XX").Value.Content["application/json"].Schema.Value, w.Body.Bytes())
	requireFits(t, op.Responses.Value("4XX").Value.Content["application/json"].Schema.Value, serve(f, "GET", "/v1/agents", "x").Body.Bytes())
}

func requireFits(t *testing.T, schema *openapi3.Schema, data []byte) {
	t.Helper()
	var value any
	require.NoError(t, json.Unmarshal(data, &value))
	require.NoError(t, schema.VisitJSON(value), string(data))
}

func isNullable(f protoreflect.FieldDescriptor) bool {
	yes, _ := proto.GetExtension(f.Options(), fleetv1.E_Nullable).(bool)
	return yes
}

// fill sets every field if full is true. Otherwise it sets only the fields that an answer never lacks: messages of Fleet, timestamps that
// are not nullable, and enums, whose zero value is never sent.
func fill(m protoreflect.Message, full bool) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		switch {
		case f.IsMap():
			if full {
				m.Mutable(f).Map().Set(protoreflect.ValueOfString("k").MapKey(), protoreflect.ValueOfString("v"))
			}
		case f.IsList():
			if !full {
				continue
			}
			list := m.Mutable(f).List()
			if f.Message() == nil {
				list.Append(sampleValue(f))
				continue
			}
			fill(list.AppendMutable().Message(), full)
		case f.Message() != nil && f.Message().FullName() == "google.protobuf.Timestamp":
			if full || !isNullable(f) {
				m.Mutable(f)
			}
		case f.Message() != nil && f.Message().ParentFile().Package() == "google.protobuf":
			if full {
				m.Mutable(f)
			}
		case f.Message() != nil:
			fill(m.Mutable(f).Message(), full)
		case f.Kind() == protoreflect.EnumKind, full:
			m.Set(f, sampleValue(f))
		}
	}
}

// sampleValue returns a value for a field that is not a message.
func sampleValue(f protoreflect.FieldDescriptor) protoreflect.Value {
	switch f.Kind() {
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(1)
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(3)
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(0.25)
	}
	return protoreflect.ValueOfString("text")
}
