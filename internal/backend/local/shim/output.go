package shim

import (
	"bytes"
	"fmt"
	"io"
)

// output writes what a child puts out to a file of limited size: the beginning as it comes and, when there is more
// than fits, the end of it too, for there a program tells how it went. What is between is dropped, and a line says so.
// Writes never fail, so that whoever feeds it goes on draining the child.
type output struct {
	file    io.Writer
	head    int64 // bytes that may still go to the file as they come
	keep    int   // bytes of the end that are kept beyond that
	grown   func()
	tail    []byte
	dropped int64
	err     error // the first one of the file
}

// maxTail is how much of the end of too long an output is kept, unless that would be more than a quarter of the limit.
const maxTail = 1 << 20

func newOutput(file io.Writer, limit int64, grown func()) *output {
	keep := min(limit/4, maxTail)
	return &output{file: file, head: limit - keep, keep: int(keep), grown: grown}
}

func (o *output) Write(p []byte) (int, error) {
	n := len(p)
	if o.head > 0 {
		now := p[:min(int64(len(p)), o.head)]
		o.head -= int64(len(now))
		o.put(now)
		p = p[len(now):]
	}
	if len(p) == 0 {
		return n, nil
	}
	o.tail = append(o.tail, p...)
	if over := len(o.tail) - o.keep; over > 0 && (o.dropped == 0 || over > o.keep) { // not at every write
		o.drop(over)
	}
	return n, nil
}

func (o *output) drop(n int) {
	if o.dropped == 0 {
		o.put([]byte("\n[fleet: the output is longer than its limit; what follows is left out, all but its end]\n"))
	}
	o.dropped += int64(n)
	o.tail = append(o.tail[:0], o.tail[n:]...)
}

// Close writes the end of the output, from the beginning of a line on where it has lines.
func (o *output) Close() {
	if over := len(o.tail) - o.keep; over > 0 {
		o.drop(over)
	}
	if o.dropped > 0 {
		if i := bytes.IndexByte(o.tail, '\n'); i >= 0 && i+1 < len(o.tail) {
			o.dropped += int64(i + 1)
			o.tail = o.tail[i+1:]
		}
		o.put(fmt.Appendf(nil, "[fleet: %d bytes were left out here]\n", o.dropped))
	}
	o.put(o.tail)
	o.tail = nil
}

func (o *output) put(p []byte) {
	if len(p) == 0 || o.err != nil {
		return
	}
	if _, err := o.file.Write(p); err != nil {
		o.err = err
		return
	}
	o.grown()
}
