package cli

import (
	"cmp"
	"io"
	"strings"
	"sync"
)

// screen combines standard output and standard error. Both may be the same terminal. screen erases the progress line at
// the bottom of the terminal before it prints something, and draws it again afterwards. Everything that it writes to a
// terminal is sanitized, except the progress line.
type screen struct {
	mu           sync.Mutex
	out, err     io.Writer
	outTerminal  terminal
	errTerminal  terminal
	colors       bool // for standard error
	outSanitizer *sanitizer
	errSanitizer *sanitizer // nil until it is needed

	progress string // the bottom line; empty if there is none
	question string // the question to the person; it replaces the progress at the bottom
	midline  bool   // the last line of output is not complete yet
	outErr   error  // why writing to standard output failed
}

// print writes a complete text to standard output.
func (s *screen) print(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.outTerminal.isTerminal() {
		text = (&sanitizer{colors: s.outSanitizer.colors}).clean(text)
	}
	s.write(text)
}

// output writes a part of an agent's output to standard output. Escape sequences may continue in the next part.
func (s *screen) output(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.outTerminal.isTerminal() {
		text = s.outSanitizer.clean(text)
	}
	s.write(text)
}

func (s *screen) write(text string) {
	if text == "" {
		return
	}
	s.erase()
	if _, err := io.WriteString(s.out, text); err != nil && s.outErr == nil {
		s.outErr = err
	}
	if s.outTerminal.isTerminal() {
		s.midline = !strings.HasSuffix(text, "\n")
	}
	s.draw()
}

// outputErr does the same as output for standard error.
func (s *screen) outputErr(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.errTerminal.isTerminal() {
		if s.errSanitizer == nil {
			s.errSanitizer = &sanitizer{colors: s.colors}
		}
		text = s.errSanitizer.clean(text)
	}
	if text == "" {
		return
	}
	s.erase()
	_, _ = io.WriteString(s.err, text) // there is no other place to report an error
	if s.errTerminal.isTerminal() {
		s.midline = !strings.HasSuffix(text, "\n")
	}
	s.draw()
}

// line writes a line to standard error.
func (s *screen) line(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.erase()
	text = s.sanitizeErr(text)
	if s.midline && s.errTerminal.isTerminal() {
		text = "\n" + text
		s.midline = false
	}
	_, _ = io.WriteString(s.err, text+"\n") // there is no other place to report an error
	s.draw()
}

// setProgress replaces the progress line; an empty text removes it. It has an effect only on a terminal.
func (s *screen) setProgress(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.errTerminal.hasCursor() {
		return
	}
	if text == "" {
		s.erase()
	}
	s.progress = text
	s.draw()
}

// setQuestion shows a question at the bottom, or removes it if the text is empty. On a terminal whose cursor cannot be moved, the question
// is a line.
func (s *screen) setQuestion(text string) {
	if !s.errTerminal.hasCursor() {
		if text != "" {
			s.line(text)
		}
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if text == s.question {
		return
	}
	s.erase()
	if s.question = text; text != "" && s.midline {
		_, _ = io.WriteString(s.err, "\n")
		s.midline = false
	}
	s.draw()
}

// erase removes the progress line from the terminal; draw restores it.
func (s *screen) erase() {
	if s.progress+s.question != "" && !s.midline {
		_, _ = io.WriteString(s.err, "\r\x1b[K")
	}
}

func (s *screen) draw() {
	line := cmp.Or(s.question, s.progress)
	if line == "" || s.midline {
		return
	}
	if w := s.errTerminal.width(); w > 1 {
		line = truncate(line, w-1)
	}
	_, _ = io.WriteString(s.err, "\r"+paint(s.colors, dim, line)+"\x1b[K")
}

// writeError returns the first error of writing to standard output, or nil.
func (s *screen) writeError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.outErr
}

// prompt asks on standard error. The answer is typed on the same line.
func (s *screen) prompt(question string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.erase()
	_, _ = io.WriteString(s.err, s.sanitizeErr(question))
}

// sanitizeErr returns a complete text as it may be written to standard error.
func (s *screen) sanitizeErr(text string) string {
	if s.errTerminal.isTerminal() {
		text = (&sanitizer{colors: s.colors}).clean(text)
	}
	return text
}
