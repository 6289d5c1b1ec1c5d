package cli

import (
	"encoding/json"
	"fmt"
	"strings"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"fleet/gen/openapi"
)

// manual holds the texts of the OpenAPI document: the comments of the proto files, which descriptors in a program lack.
type manual struct {
	Tags []struct {
		Name, Description string
	}
	// Paths holds the operations by path and verb.
	Paths      map[string]map[string]operation
	Components struct {
		Schemas map[string]struct {
			Properties map[string]struct{ Description string }
		}
	}
}

type operation struct {
	Summary, Description string
	Parameters           []struct{ Name, Description string }
}

// readManual reads the embedded document. It panics if the document is invalid, since the program was then built wrong.
func readManual() (m manual) {
	if err := json.Unmarshal([]byte(openapi.JSON), &m); err != nil {
		panic(fmt.Sprintf("cli: the OpenAPI document: %v", err))
	}
	return m
}

func (m manual) service(s protoreflect.ServiceDescriptor) string {
	for _, tag := range m.Tags {
		if tag.Name == string(s.Name()) {
			return strings.TrimSpace(strings.TrimPrefix(tag.Description, tag.Name))
		}
	}
	return ""
}

func (m manual) method(d protoreflect.MethodDescriptor) (summary, description string) {
	o := m.operation(d)
	return o.Summary, strings.TrimPrefix(strings.TrimPrefix(o.Description, o.Summary), ".") // of one sentence, both are the same
}

// operation returns the method's operation, found by the path and verb of its REST call.
func (m manual) operation(d protoreflect.MethodDescriptor) operation {
	verb, path := binding(d)
	return m.Paths[path][verb]
}

// field returns the description of a request field: as a parameter of the call, or as a property of its body.
func (m manual) field(d protoreflect.MethodDescriptor, f protoreflect.FieldDescriptor) string {
	for _, p := range m.operation(d).Parameters {
		if p.Name == string(f.Name()) {
			return p.Description
		}
	}
	return m.Components.Schemas[string(d.Input().Name())].Properties[string(f.Name())].Description
}

// binding returns the verb and the path of the method's REST call.
func binding(m protoreflect.MethodDescriptor) (verb, path string) {
	rule, _ := proto.GetExtension(m.Options(), annotations.E_Http).(*annotations.HttpRule)
	switch p := rule.GetPattern().(type) {
	case *annotations.HttpRule_Get:
		verb, path = "get", p.Get
	case *annotations.HttpRule_Post:
		verb, path = "post", p.Post
	case *annotations.HttpRule_Put:
		verb, path = "put", p.Put
	case *annotations.HttpRule_Patch:
		verb, path = "patch", p.Patch
	case *annotations.HttpRule_Delete:
		verb, path = "delete", p.Delete
	}
	return verb, path
}
