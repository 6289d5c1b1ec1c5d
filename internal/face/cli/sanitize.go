package cli

import (
	"fmt"
	"strings"
	"unicode"
)

// Text of agents is not trusted. On a terminal, escape sequences could change the window title, write to the clipboard
// or hide text. If standard output is not a terminal, it gets an agent's output unchanged.

// printable returns the text in one line, without characters that a terminal would interpret.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			return ' '
		case unicode.IsControl(r) || isDirectional(r):
			return -1
		}
		return r
	}, s)
}

// isDirectional reports whether r changes the direction of the surrounding text. Such characters can make a text look like another one.
func isDirectional(r rune) bool { return unicode.Is(unicode.Bidi_Control, r) }

// escapeDocument returns a JSON or YAML document in which characters that a terminal would interpret are written as escape
// sequences. Fleet's documents contain such characters only in quotes, where the escape sequence means the same.
func escapeDocument(document string) string {
	var b strings.Builder
	for _, r := range document {
		if r != '\n' && unicode.IsControl(r) || isDirectional(r) {
			fmt.Fprintf(&b, "\\u%04x", r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// sanitizer removes from a stream of text what a terminal would interpret, except line breaks, tabs and, where allowed,
// colours. A carriage return becomes a line break, because the text after it would hide the text before it. A sequence
// may be split between two calls.
type sanitizer struct {
	colors  bool
	state   sanitizerState
	pending strings.Builder // the parameters of the CSI sequence so far
	afterCR bool            // the last character was a carriage return, for which nothing was written yet
}

type sanitizerState int

const (
	inPlain               sanitizerState = iota
	afterEscape                          // after ESC
	inCSI                                // in a CSI sequence, which ends with a letter
	inControlString                      // in a control string, such as an OSC, which ends with BEL or ESC \
	inControlStringEscape                // in a control string, after ESC
)

// maxSequence limits the parameters of a CSI sequence, in bytes. The rest of a longer sequence is shown as text.
const maxSequence = 32

// clean returns the part of the text that is safe on a terminal. The text continues that of the call before.
func (s *sanitizer) clean(text string) string {
	var b strings.Builder
	for _, r := range text {
		s.step(&b, r)
	}
	return b.String()
}

func (s *sanitizer) step(b *strings.Builder, r rune) {
	if s.afterCR && r != '\r' {
		s.afterCR = false
		if r != '\n' {
			b.WriteByte('\n')
		}
	}
	switch s.state {
	case afterEscape:
		s.state = inPlain
		switch r {
		case '[':
			s.beginSequence()
		case ']', 'P', 'X', '^', '_':
			s.state = inControlString
		}
	case inCSI:
		s.stepCSI(b, r)
	case inControlString:
		switch r {
		case 0x1b:
			s.state = inControlStringEscape
		case 0x07, 0x9c, '\n': // an unterminated string must not hide the rest
			s.state = inPlain
		}
	case inControlStringEscape:
		if s.state = inPlain; r != '\\' {
			s.state = afterEscape
			s.step(b, r)
		}
	default:
		s.stepText(b, r)
	}
}

func (s *sanitizer) beginSequence() {
	s.state = inCSI
	s.pending.Reset()
}

func (s *sanitizer) stepCSI(b *strings.Builder, r rune) {
	switch {
	case r >= '0' && r <= '9' || r == ';' || r == ':':
		if s.pending.Len() < maxSequence {
			s.pending.WriteRune(r)
			return
		}
		s.state = inPlain
	case r == 'm' && s.colors:
		s.state = inPlain
		b.WriteString("\x1b[" + s.pending.String() + "m")
	case r >= 0x40 && r <= 0x7e:
		s.state = inPlain
	case r < 0x20 || r > 0x7e:
		s.state = inPlain
		s.stepText(b, r)
	}
}

func (s *sanitizer) stepText(b *strings.Builder, r rune) {
	switch {
	case r == 0x1b:
		s.state = afterEscape
	case r == 0x9b:
		s.beginSequence()
	case r == 0x90 || r == 0x98 || r == 0x9d || r == 0x9e || r == 0x9f:
		s.state = inControlString
	case r == '\r':
		s.afterCR = true
	case r == '\n' || r == '\t' || !unicode.IsControl(r) && !isDirectional(r):
		b.WriteRune(r)
	}
}
