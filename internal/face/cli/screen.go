package cli

import (
	"cmp"
	"io"
	"strings"
	"sync"
)

// screen writes to standard output and standard error, which may be the same terminal. It keeps a bottom line on the terminal, with the
// progress or a question: it erases the line before it prints something, and draws it again afterwards. It sanitizes everything that it
// writes to a terminal, except the bottom line, whose text the caller must have made printable.
type screen struct {
	mu             sync.Mutex
	stdout, stderr io.Writer
	outTerminal    terminal
	errTerminal    terminal
	colors         bool // for standard error
	outSanitizer   *sanitizer
	errSanitizer   *sanitizer // nil until it is needed

	progress   string // on the bottom line; empty if there is none
	question   string // on the bottom line, instead of the progress; empty if there is none
	promptText string // the question that prompt shows; empty if it shows none
	midline    bool   // the last line on the terminal is not complete, so there is no bottom line
	writeErr   error  // why writing to standard output failed
}

// print writes a text to standard output. The text must not end inside an escape sequence.
func (s *screen) print(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.outTerminal.isTerminal() {
		text = (&sanitizer{colors: s.outSanitizer.colors}).clean(text)
	}
	s.write(text)
}

// printPart writes a part of an agent's output to standard output. Escape sequences may continue in the next part.
func (s *screen) printPart(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.outTerminal.isTerminal() {
		text = s.outSanitizer.clean(text)
	}
	s.write(text)
}

// write writes a sanitized text to standard output. The caller holds the lock.
func (s *screen) write(text string) {
	if text == "" {
		return
	}
	s.erase()
	if _, err := io.WriteString(s.stdout, text); err != nil && s.writeErr == nil {
		s.writeErr = err
	}
	if s.outTerminal.isTerminal() {
		s.midline = !strings.HasSuffix(text, "\n")
	}
	s.draw()
}

// printErrPart does the same as printPart for standard error.
func (s *screen) printErrPart(text string) {
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
	_, _ = io.WriteString(s.stderr, text) // there is no other place to report an error
	if s.errTerminal.isTerminal() {
		s.midline = !strings.HasSuffix(text, "\n")
	}
	s.draw()
}

// printErrLine writes the text as lines of their own to standard error.
func (s *screen) printErrLine(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.erase()
	text = s.sanitizeForStderr(text)
	if s.midline && s.errTerminal.isTerminal() {
		text = "\n" + text
		s.midline = false
	}
	_, _ = io.WriteString(s.stderr, text+"\n") // there is no other place to report an error
	s.draw()
}

// setProgress replaces the progress on the bottom line, or removes it if the text is empty. It has an effect only on a terminal with a
// cursor.
func (s *screen) setProgress(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.errTerminal.hasCursor() {
		return
	}
	if s.promptText == "" && text == "" {
		s.erase()
	}
	s.progress = text
	if s.promptText == "" {
		s.draw()
	}
}

// setQuestion shows a question on the bottom line, or removes it if the text is empty. If standard error is not a terminal whose cursor can be
// moved, it writes the question as a line.
func (s *screen) setQuestion(text string) {
	if !s.errTerminal.hasCursor() {
		if text != "" {
			s.printErrLine(text)
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
		_, _ = io.WriteString(s.stderr, "\n")
		s.midline = false
	}
	s.draw()
}

// erase removes the bottom line from the terminal. It only ends the line of a prompt, on which the person types. The caller holds the
// lock, and calls draw to show the line again.
func (s *screen) erase() {
	if s.promptText != "" {
		_, _ = io.WriteString(s.stderr, "\n")
		return
	}
	if s.progress+s.question != "" && !s.midline {
		_, _ = io.WriteString(s.stderr, "\r\x1b[K")
	}
}

// draw shows the bottom line, if there is one. The caller holds the lock.
func (s *screen) draw() {
	if s.promptText != "" {
		_, _ = io.WriteString(s.stderr, s.promptText)
		return
	}
	line := cmp.Or(s.question, s.progress)
	if line == "" || s.midline {
		return
	}
	if w := s.errTerminal.width(); w > 1 {
		line = truncate(line, w-1)
	}
	_, _ = io.WriteString(s.stderr, "\r"+paint(s.colors, dim, line)+"\x1b[K")
}

// firstWriteErr returns the first error of writing to standard output, or nil.
func (s *screen) firstWriteErr() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writeErr
}

// prompt writes a question to standard error without a line break. The person types the answer on the same line, so there is no
// progress on it until endPrompt or cancelPrompt is called.
func (s *screen) prompt(question string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.erase()
	s.promptText = s.sanitizeForStderr(question)
	s.draw()
}

// endPrompt ends a prompt after the person has answered. The answer has ended the line.
func (s *screen) endPrompt() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clearPrompt()
}

// cancelPrompt ends a prompt that the person has not answered. It ends the line.
func (s *screen) cancelPrompt() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.erase()
	s.clearPrompt()
}

// clearPrompt shows the bottom line in place of the prompt. The caller holds the lock.
func (s *screen) clearPrompt() {
	s.promptText, s.midline = "", false
	s.draw()
}

// sanitizeForStderr returns the text, sanitized if standard error is a terminal. The text must not end inside an escape sequence.
func (s *screen) sanitizeForStderr(text string) string {
	if s.errTerminal.isTerminal() {
		text = (&sanitizer{colors: s.colors}).clean(text)
	}
	return text
}
