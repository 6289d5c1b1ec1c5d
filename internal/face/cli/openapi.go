package cli

import (
	"encoding/json"
	"fmt"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"fleet/gen/openapi"
)

// openAPIDocument is the part of the OpenAPI document that has texts. They are the comments of the proto files, which are not in the
// descriptors of a program.
type openAPIDocument struct {
	Tags []struct {
		Name, Description string
	}
	// Paths holds the operations by path and verb.
	Paths      map[string]map[string]*operation
	Components struct {
		Schemas map[string]struct {
			Properties map[string]struct{ Description string }
		}
	}
	methods map[string]*operation // by the method's full name
}

// operation is the description of a method.
type operation struct {
	Summary, Description string
	Method               string `json:"x-grpc-method"`
	Parameters           []struct{ Name, Description string }
}

// readOpenAPI reads the embedded document. It panics if the document is invalid, which is a bug.
func readOpenAPI() openAPIDocument {
	m := openAPIDocument{methods: map[string]*operation{}}
	if err := json.Unmarshal([]byte(openapi.JSON), &m); err != nil {
		panic(fmt.Sprintf("cli: the OpenAPI document: %v", err))
	}
	for _, verbs := range m.Paths {
		for _, o := range verbs {
			m.methods[o.Method] = o
		}
	}
	return m
}

// serviceDescription returns the description of a service, or "" if the document has none.
func (m openAPIDocument) serviceDescription(s protoreflect.ServiceDescriptor) string {
	for _, tag := range m.Tags {
		if tag.Name == string(s.Name()) {
			return strings.TrimSpace(strings.TrimPrefix(tag.Description, tag.Name))
		}
	}
	return ""
}

// methodDescription returns the first sentence about a method, without its full stop, and the other sentences.
func (m openAPIDocument) methodDescription(d protoreflect.MethodDescriptor) (summary, description string) {
	o := m.operation(d)
	return o.Summary, strings.TrimPrefix(strings.TrimPrefix(o.Description, o.Summary), ".") // a description of one sentence equals the summary
}

// operation returns the description of a method. It is empty if the document has none.
func (m openAPIDocument) operation(d protoreflect.MethodDescriptor) operation {
	if o := m.methods[string(d.FullName())]; o != nil {
		return *o
	}
	return operation{}
}

// fieldDescription returns the description of a request field: as a parameter of the call, or as a property of its body.
func (m openAPIDocument) fieldDescription(d protoreflect.MethodDescriptor, f protoreflect.FieldDescriptor) string {
	for _, p := range m.operation(d).Parameters {
		if p.Name == string(f.Name()) {
			return p.Description
		}
	}
	return m.Components.Schemas[string(d.Input().Name())].Properties[string(f.Name())].Description
}
