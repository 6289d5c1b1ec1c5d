package app

import (
	"bytes"
	"io"
	"sync"
)

// A server keeps the last recentLines lines of its log, and at most maxLineBytes of each line.
const (
	recentLines  = 1000
	maxLineBytes = 2 << 10
)

// recentLog is a writer that passes the log on and keeps its last lines, for `fleet support-bundle`.
type recentLog struct {
	next io.Writer

	mu    sync.Mutex
	lines [][]byte
	first int // index of the oldest line
}

// Write keeps a record of the log and passes it on. The handlers of slog write each record with a single call.
func (r *recentLog) Write(record []byte) (int, error) {
	line := bytes.Clone(record[:min(len(record), maxLineBytes)])
	if len(record) > maxLineBytes {
		line = append(line, "...\n"...)
	}
	r.mu.Lock()
	if len(r.lines) < recentLines {
		r.lines = append(r.lines, line)
	} else {
		r.lines[r.first] = line
		r.first = (r.first + 1) % recentLines
	}
	r.mu.Unlock()
	return r.next.Write(record)
}

// text returns the lines that are kept, the oldest first. If r is nil, it returns nil.
func (r *recentLog) text() []byte {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return bytes.Join(append(r.lines[r.first:len(r.lines):len(r.lines)], r.lines[:r.first]...), nil)
}
