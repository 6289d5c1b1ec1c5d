package cli

import (
	"fmt"
	"strings"
	"unicode"
)

// Text of agents is not trusted. On a terminal, escape sequences could change the window title, write to the clipboard
// or hide text. Other streams get every byte unchanged.

// printable makes a text one line and removes what a terminal would interpret.
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

// isDirectional reports whether r changes the direction of the surrounding text, which can make it read as something
// else.
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
	pending strings.Builder // a sequence that may be a colour
	afterCR bool            // the last character was a carriage return
}

type sanitizerState int

const (
	inPlain        sanitizerState = iota
	afterEscape                   // after ESC
	inCSI                         // in a CSI sequence, which ends with a letter
	inString                      // in a string, which ends with BEL or ESC \
	inStringEscape                // in a string, after ESC
)

const maxSequence = 32

// clean returns the part of the text that may be written to the terminal.
func (f *sanitizer) clean(text string) string {
	var b strings.Builder
	for _, r := range text {
		f.step(&b, r)
	}
	return b.String()
}

func (f *sanitizer) step(b *strings.Builder, r rune) {
	if f.afterCR && r != '\r' {
		f.afterCR = false
		if r != '\n' {
			b.WriteByte('\n')
		}
	}
	switch f.state {
	case afterEscape:
		f.state = inPlain
		switch r {
		case '[':
			f.beginSequence()
		case ']', 'P', 'X', '^', '_':
			f.state = inString
		}
	case inCSI:
		f.stepCSI(b, r)
	case inString:
		switch r {
		case 0x1b:
			f.state = inStringEscape
		case 0x07, 0x9c, '\n': // an unterminated string must not hide the rest
			f.state = inPlain
		}
	case inStringEscape:
		if f.state = inPlain; r != '\\' {
			f.state = afterEscape
			f.step(b, r)
		}
	default:
		f.stepText(b, r)
	}
}

func (f *sanitizer) beginSequence() {
	f.state = inCSI
	f.pending.Reset()
}

func (f *sanitizer) stepCSI(b *strings.Builder, r rune) {
	switch {
	case r >= '0' && r <= '9' || r == ';' || r == ':':
		if f.pending.Len() < maxSequence {
			f.pending.WriteRune(r)
			return
		}
		f.state = inPlain
	case r == 'm' && f.colors:
		f.state = inPlain
		b.WriteString("\x1b[" + f.pending.String() + "m")
	case r >= 0x40 && r <= 0x7e:
		f.state = inPlain
	case r < 0x20 || r > 0x7e:
		f.state = inPlain
		f.stepText(b, r)
	}
}

func (f *sanitizer) stepText(b *strings.Builder, r rune) {
	switch {
	case r == 0x1b:
		f.state = afterEscape
	case r == 0x9b:
		f.beginSequence()
	case r == 0x90 || r == 0x98 || r == 0x9d || r == 0x9e || r == 0x9f:
		f.state = inString
	case r == '\r':
		f.afterCR = true
	case r == '\n' || r == '\t' || !unicode.IsControl(r) && !isDirectional(r):
		b.WriteRune(r)
	}
}
