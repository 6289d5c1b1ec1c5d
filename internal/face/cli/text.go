package cli

import (
	"io"
	"os"
	"strings"
	"unicode/utf8"
)

// maxText is the longest text that the API accepts, in bytes.
const maxText = 1 << 20

// text returns a text argument: the argument itself, the content of the file for "@FILE", or standard input for "-".
// what names the argument in errors.
func (s *session) text(arg, what string) (string, error) {
	data, err := s.content(maxText, arg, what)
	if err == nil && data != arg && strings.TrimSpace(data) == "" {
		err = usagef("the %s is empty", what)
	}
	if err == nil && !utf8.ValidString(data) {
		err = notText(what)
	}
	return data, err
}

// notText is the error for a text that the API cannot carry. It is never changed silently: it may be a program.
func notText(what string) error {
	return usagef("the %s is not text in UTF-8; convert it, for example with iconv, or encode it with base64", what)
}

// content does the same as text for up to limit bytes of any data.
func (s *session) content(limit int, arg, what string) (string, error) {
	file, isFile := strings.CutPrefix(arg, "@")
	if !isFile && arg != "-" {
		return unescaped(arg), nil
	}
	text, err := s.fileText(limit, file, what)
	if err != nil && isFile {
		if _, missing := os.Stat(file); missing != nil {
			err = usagef("%v; write a text that begins with @ as \\@", err)
		}
	}
	return text, err
}

// fileText returns up to limit bytes of a file, or of standard input for "-".
func (s *session) fileText(limit int, file, what string) (string, error) {
	if file == "-" {
		if s.stdinIs != "" {
			return "", usagef("standard input cannot be both the %s and the %s; put one of them into a file, as @FILE", s.stdinIs, what)
		}
		s.stdinIs = what
		return s.read(s.deps.Stdin, limit, what, "standard input")
	}
	f, err := os.Open(file)
	if err != nil {
		return "", usagef("cannot read the %s: %v", what, err)
	}
	defer f.Close()
	return s.read(f, limit, what, file)
}

// unescaped removes the backslash before a text that would have a special meaning without it: \@name becomes @name, and
// \- becomes -. It keeps other backslashes.
func unescaped(arg string) string {
	rest := strings.TrimLeft(arg, `\`)
	if len(rest) < len(arg) && (strings.HasPrefix(rest, "@") || rest == "-") {
		return arg[1:]
	}
	return arg
}

func (s *session) read(r io.Reader, limit int, what, from string) (string, error) {
	data, err := io.ReadAll(io.LimitReader(r, int64(limit)+1))
	switch {
	case err != nil:
		return "", Fail(ExitError, "", "cannot read the %s from %s: %v", what, from, err)
	case len(data) > limit:
		return "", usagef("the %s from %s is longer than %s; put a long text into a file in the agent's workspace", what, from, size(limit))
	case len(data) == 0:
		return "", usagef("the %s from %s is empty", what, from)
	}
	return string(data), nil
}
