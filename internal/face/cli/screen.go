package cli

import (
	"io"
	"strings"
	"sync"
)

// screen is standard output and standard error together. They may be the same terminal, with a progress line at its
// bottom that gives way to whatever is printed.
type screen struct {
	mu       sync.Mutex
	out, err io.Writer
	onOut    terminal
	onErr    terminal
	colors   bool // of standard error
	clean    *sanitizer

	cleanAside *sanitizer // of standard error, once it is needed

	progress string // the line at the bottom; empty when there is none
	midline  bool   // the terminal's last line of output has no end yet
	fault    error  // why standard output does not take what is written
}

// raw writes text to standard output as it is.
func (s *screen) raw(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.write(text)
}

// output writes what an agent wrote to standard output: as it is, or made harmless for a terminal.
func (s *screen) output(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.onOut.is() {
		text = s.clean.clean(text)
	}
	s.write(text)
}

func (s *screen) write(text string) {
	if text == "" {
		return
	}
	s.erase()
	if _, err := io.WriteString(s.out, text); err != nil && s.fault == nil {
		s.fault = err
	}
	if s.onOut.is() {
		s.midline = !strings.HasSuffix(text, "\n")
	}
	s.draw()
}

// aside writes what an agent wrote to standard error, as output does to standard output.
func (s *screen) aside(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.onErr.is() {
		if s.cleanAside == nil {
			s.cleanAside = &sanitizer{colors: s.colors}
		}
		text = s.cleanAside.clean(text)
	}
	if text == "" {
		return
	}
	s.erase()
	_, _ = io.WriteString(s.err, text) // nobody is left to be told
	if s.onErr.is() {
		s.midline = !strings.HasSuffix(text, "\n")
	}
	s.draw()
}

// line writes a line to standard error.
func (s *screen) line(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.erase()
	if s.midline && s.onErr.is() {
		text = "\n" + text
		s.midline = false
	}
	_, _ = io.WriteString(s.err, text+"\n") // nobody is left to be told
	s.draw()
}

// bottom replaces the progress line; an empty text takes it away. It shows on a terminal only.
func (s *screen) bottom(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.onErr.moves() {
		return
	}
	if text == "" {
		s.erase()
	}
	s.progress = text
	s.draw()
}

// erase takes the progress line off the terminal; draw puts it back.
func (s *screen) erase() {
	if s.progress != "" && !s.midline {
		_, _ = io.WriteString(s.err, "\r\x1b[K")
	}
}

func (s *screen) draw() {
	if s.progress == "" || s.midline {
		return
	}
	line := s.progress
	if w := s.onErr.width(); w > 1 {
		line = truncate(line, w-1)
	}
	_, _ = io.WriteString(s.err, "\r"+paint(s.colors, dim, line)+"\x1b[K")
}

// failed returns why standard output did not take what was written; nil when it did.
func (s *screen) failed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fault
}

// prompt asks on standard error; the answer comes on the same line.
func (s *screen) prompt(question string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.erase()
	_, _ = io.WriteString(s.err, question)
}
