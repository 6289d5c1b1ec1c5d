//go:build cgo

package run

import (
	"encoding/json"
	"errors"
	"os"
	"sync"

	"fleet/internal/runner/driver"
)

// output is the pipe to the supervisor of the run, to which a run writes its outputs, one per line.
type output struct {
	limit int64

	mu   sync.Mutex
	file *os.File
	size int64
	full bool
	err  error
}

// add writes a line. It does nothing if the output is full or a write has failed.
func (o *output) add(p driver.OutputLine) {
	line, err := json.Marshal(p)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil || o.full {
		return
	}
	if err == nil {
		_, err = o.file.Write(append(line, '\n'))
	}
	if o.err = err; err != nil {
		return
	}
	o.size += int64(len(line)) + 1
	o.full = o.size > o.limit
}

// end writes a last line, even if the output is full, and closes the file.
func (o *output) end(p driver.OutputLine) error {
	o.mu.Lock()
	o.full = false
	o.mu.Unlock()
	o.add(p)
	_, err := o.state()
	return errors.Join(err, o.close())
}

// state reports whether the output is full, and the first write error.
func (o *output) state() (full bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.full, o.err
}

func (o *output) close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.file.Close()
}
