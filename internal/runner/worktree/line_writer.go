package worktree

import "bytes"

// lineWriter calls a function for each complete line that is written to it.
type lineWriter struct {
	each          func(line string)
	rest          []byte // the beginning of a line
	nulTerminated bool   // NUL ends the lines instead of a line feed
	truncate      bool   // a line that is longer than maxLine is cut off; otherwise it is an error
}

// maxLine limits the length of a line, in bytes.
const maxLine = 64 << 10

func (l *lineWriter) Write(p []byte) (int, error) {
	end := []byte{'\n'}
	if l.nulTerminated {
		end = []byte{0}
	}
	for input := p; len(input) > 0; {
		before, after, ok := bytes.Cut(input, end)
		if l.truncate {
			before = before[:min(len(before), max(0, maxLine-len(l.rest)))]
		}
		if !ok {
			if l.rest = append(l.rest, before...); len(l.rest) > maxLine {
				return 0, &Error{Message: "git prints a line that is too long"}
			}
			break
		}
		l.each(string(append(l.rest, before...)))
		l.rest, input = l.rest[:0], after
	}
	return len(p), nil
}
