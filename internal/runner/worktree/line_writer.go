package worktree

import "bytes"

// lineWriter calls a function for each line that is written to it, and keeps none. It ignores a last line without its end.
type lineWriter struct {
	each func(line string)
	rest []byte // the beginning of a line
	zero bool   // NUL ends the lines
	cut  bool   // a line that is too long is cut off, and is not an error
}

// maxLine limits the length of a line, in bytes.
const maxLine = 64 << 10

func (l *lineWriter) Write(p []byte) (int, error) {
	end := []byte{'\n'}
	if l.zero {
		end = []byte{0}
	}
	for rest := p; len(rest) > 0; {
		before, after, ok := bytes.Cut(rest, end)
		if l.cut {
			before = before[:min(len(before), max(0, maxLine-len(l.rest)))]
		}
		if !ok {
			if l.rest = append(l.rest, before...); len(l.rest) > maxLine {
				return 0, &Error{Message: "git prints a line that is too long"}
			}
			break
		}
		l.each(string(append(l.rest, before...)))
		l.rest, rest = l.rest[:0], after
	}
	return len(p), nil
}
