package claude

import (
	"encoding/json"
	"io"
	"sync"
)

// input writes lines to Claude Code's standard input. Callers do not wait, because Claude Code may not read while it
// waits for an answer.
type input struct {
	to io.Writer

	mu      sync.Mutex
	queue   [][]byte
	writing bool
}

// send queues the value as a line of JSON. Claude Code ends when it reads a line that is not JSON, so everything that is written to
// it must go through send.
func (in *input) send(v any) {
	line, err := json.Marshal(v)
	if err != nil {
		return // impossible: all values are texts, or JSON that was read before
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.queue = append(in.queue, append(line, '\n'))
	if !in.writing {
		in.writing = true
		go in.write()
	}
}

// write writes the queued lines until the queue is empty.
func (in *input) write() {
	for {
		in.mu.Lock()
		if len(in.queue) == 0 {
			in.writing = false
			in.mu.Unlock()
			return
		}
		line := in.queue[0]
		in.queue = in.queue[1:]
		in.mu.Unlock()
		_, _ = in.to.Write(line) // an error means that the program has ended, which its output shows too
	}
}
