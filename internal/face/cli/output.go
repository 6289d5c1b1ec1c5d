package cli

import (
	"bytes"
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/proto"

	"fleet/internal/face/wire"
)

// format is the output format of a command. It is a pflag.Value.
type format string

const (
	tableFormat format = "table"
	wideFormat  format = "wide" // a table with more columns
	jsonFormat  format = "json"
	yamlFormat  format = "yaml"
)

func (f *format) String() string { return string(*f) }

func (f *format) Type() string { return "FORMAT" }

// forPeople reports whether results are printed as texts and tables.
func (f format) forPeople() bool { return f == tableFormat || f == wideFormat }

func (f *format) Set(s string) error {
	switch v := format(s); v {
	case tableFormat, wideFormat, jsonFormat, yamlFormat:
		*f = v
		return nil
	}
	return fmt.Errorf("give table, wide, json or yaml")
}

// document returns a document for programs with the content of compact: YAML if that is the format, and indented JSON otherwise.
func (f format) document(compact []byte) (string, error) {
	if f == yamlFormat {
		text, err := toYAML(compact)
		return escapeDocument(text), err
	}
	var b bytes.Buffer
	if err := json.Indent(&b, compact, "", "  "); err != nil {
		return "", err
	}
	b.WriteByte('\n')
	return escapeDocument(b.String()), nil
}

// jsonLine returns the message as a line of JSON.
func jsonLine(m proto.Message) (string, error) {
	compact, err := wire.Marshal(m)
	return escapeDocument(string(compact)) + "\n", err
}

// print prints a response of the API: as a document for programs, or with printText for people. If err, the error of the call, is not nil,
// print only returns it. A command that prints several responses prints a document for each.
func (s *session) print(m proto.Message, err error, printText func()) error {
	if err != nil {
		return err
	}
	if s.output.forPeople() {
		printText()
		return s.screen.firstWriteErr()
	}
	compact, err := wire.Marshal(m)
	if err != nil {
		return err
	}
	text, err := s.output.document(compact)
	if err != nil {
		return err
	}
	if s.output == yamlFormat && s.printedDocument {
		text = "---\n" + text
	}
	s.printedDocument = true
	s.screen.print(text)
	return s.screen.firstWriteErr()
}
