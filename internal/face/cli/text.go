package cli

import (
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// maxText is the longest text that the API accepts, in bytes.
const maxText = 1 << 20

// readArgument returns a text argument: the argument itself, the content of the file for "@FILE", or standard input for "-". It
// returns an error if a file or standard input has only white space. The parameter what names the argument in errors.
func (s *session) readArgument(arg, what string) (string, error) {
	data, err := s.readText(maxText, arg, what)
	if err == nil && data != arg && strings.TrimSpace(data) == "" {
		err = usagef("the %s is empty", what)
	}
	return data, err
}

// readText works like readArgument for a text of up to limit bytes, and accepts white space.
func (s *session) readText(limit int, arg, what string) (string, error) {
	data, err := s.readContent(limit, arg, what)
	if err == nil && !utf8.ValidString(data) {
		err = newNotTextError(what)
	}
	return data, err
}

// newNotTextError returns the error for a text that the API cannot carry. Fleet does not change such a text silently, because
// it may be a program.
func newNotTextError(what string) error {
	return usagef("the %s is not text in UTF-8; convert it, for example with iconv, or encode it with base64", what)
}

// readContent works like readText, and accepts data that is not UTF-8.
func (s *session) readContent(limit int, arg, what string) (string, error) {
	file, isFile := strings.CutPrefix(arg, "@")
	if !isFile && arg != "-" {
		return unescape(arg), nil
	}
	text, err := s.readFile(limit, file, what)
	if err != nil && isFile {
		if _, statErr := os.Stat(file); statErr != nil {
			err = usagef("%v; write a text that begins with @ as \\@", err)
		}
	}
	return text, err
}

// readFile returns the content of a file, or of standard input for "-". The content must not be empty or longer than limit
// bytes.
func (s *session) readFile(limit int, file, what string) (string, error) {
	if file == "-" {
		if s.stdinArgument != "" {
			return "", usagef("standard input cannot be both the %s and the %s; put one of them into a file, as @FILE", s.stdinArgument, what)
		}
		s.stdinArgument = what
		return readAtMost(s.deps.Stdin, limit, what, "standard input")
	}
	f, err := os.Open(file)
	if err != nil {
		return "", usagef("cannot read the %s: %v", what, err)
	}
	defer f.Close()
	return readAtMost(f, limit, what, file)
}

// unescape removes the backslash before a text that would have a special meaning without it: \@name becomes @name, and
// \- becomes -. It keeps other backslashes.
func unescape(arg string) string {
	rest := strings.TrimLeft(arg, `\`)
	if len(rest) < len(arg) && (strings.HasPrefix(rest, "@") || rest == "-") {
		return arg[1:]
	}
	return arg
}

// readAtMost returns the whole content of r, which must not be empty or longer than limit bytes. In errors, what names the argument,
// and source says where it is from.
func readAtMost(r io.Reader, limit int, what, source string) (string, error) {
	data, err := io.ReadAll(io.LimitReader(r, int64(limit)+1))
	switch {
	case err != nil:
		return "", Fail(ExitError, "", "cannot read the %s from %s: %v", what, source, err)
	case len(data) > limit:
		return "", usagef("the %s from %s is longer than %s; put a long text into a file in the agent's workspace", what, source, sizeText(limit))
	case len(data) == 0:
		return "", usagef("the %s from %s is empty", what, source)
	}
	return string(data), nil
}

// checkTexts returns a usage error if a text of the request is not UTF-8, for example because an argument comes from a
// terminal or a file in another encoding. Protobuf refuses such texts with an error that does not name them.
func checkTexts(request any) error {
	m, ok := request.(proto.Message)
	if !ok {
		return nil
	}
	return protorange.Range(m.ProtoReflect(), func(p protopath.Values) error {
		last := p.Index(-1)
		texts := []any{last.Value.Interface()}
		if last.Step.Kind() == protopath.MapIndexStep {
			texts = append(texts, last.Step.MapIndex().Interface())
		}
		for _, text := range texts {
			if s, ok := text.(string); ok && !utf8.ValidString(s) {
				return newNotTextError(fieldNameIn(p.Path))
			}
		}
		return nil
	})
}

// checkedStream is a stream that refuses to send a request with a text that is not UTF-8.
type checkedStream struct{ grpc.ClientStream }

func (s checkedStream) SendMsg(request any) error {
	if err := checkTexts(request); err != nil {
		return err
	}
	return s.ClientStream.SendMsg(request)
}

// fieldNameIn returns the name of the last field of the path in words: "agent name".
func fieldNameIn(path protopath.Path) string {
	var f protoreflect.FieldDescriptor
	for _, step := range path {
		if step.Kind() == protopath.FieldAccessStep {
			f = step.FieldDescriptor()
		}
	}
	if f == nil {
		return "request"
	}
	return strings.ReplaceAll(string(f.Name()), "_", " ")
}
