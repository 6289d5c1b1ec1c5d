package cli

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

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
	return o.Summary, withoutREST(o.Description)
}

// withoutREST removes what a description says about REST, which does not help on the command line. The document has
// whole paragraphs about it, and comments have sentences that begin with "On REST".
func withoutREST(description string) string {
	var kept []string
	for paragraph := range strings.SplitSeq(description, "\n\n") {
		if strings.Contains(paragraph, "`Accept") || strings.Contains(paragraph, "Accept-Encoding") {
			continue
		}
		before, rest, found := strings.Cut(paragraph, "On REST ")
		if found {
			_, after, _ := strings.Cut(rest, ". ")
			paragraph = before + after
		}
		kept = append(kept, paragraph)
	}
	return strings.TrimSpace(strings.Join(kept, "\n\n"))
}

// operation returns the method's operation, found by the path and verb of its REST call.
func (m manual) operation(d protoreflect.MethodDescriptor) operation {
	verb, path, _ := binding(d)
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

// column is the width of help texts.
const column = 80

// wholeCommand matches quoted commands, which wrap does not break.
var wholeCommand = regexp.MustCompile(`"fleet [a-z -]+"`)

// wrap breaks a text into lines of at most width columns, as far as its words allow.
func wrap(text string, width int) string {
	const glue = "\u00a0"
	text = wholeCommand.ReplaceAllStringFunc(text, func(c string) string { return strings.ReplaceAll(c, " ", glue) })
	var b strings.Builder
	at := 0
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ' ' || r == '\n' }) {
		length := len([]rune(word))
		switch {
		case at == 0:
		case at+1+length > width:
			b.WriteByte('\n')
			at = 0
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += length
	}
	return strings.ReplaceAll(b.String(), glue, " ")
}

// inBrief shortens a text for a list of commands: all of it, or its part before the first pause.
func inBrief(text string, width int) string {
	text = strings.TrimSuffix(text, ".")
	if len([]rune(text)) <= width {
		return text
	}
	return truncate(breath.Split(text, 2)[0], width)
}

var breath = regexp.MustCompile(`[,:;.] `)
