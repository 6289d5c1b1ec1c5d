//go:build cgo

package run

import (
	"encoding/json"
	"errors"
	"os"
	"sync"

	"fleet/internal/fleet"
	"fleet/internal/runner/driver"
)

// output is the pipe to the run's supervisor. The run writes its outputs to it, one per line.
type output struct {
	limit     int64  // bytes
	usagePath string // path of driver.UsageFile; empty: it is not written

	usageMu sync.Mutex // held while usage is written

	mu   sync.Mutex
	file *os.File
	size int64
	full bool  // size exceeds the limit
	err  error // the first error of writing a line
}

// writeUsage writes the usage of the run so far to usagePath and to the output. setUsage sets the usage in an outcome.
func (o *output) writeUsage(setUsage func(*fleet.Outcome)) error {
	o.usageMu.Lock() // so that the newest figures are written last
	defer o.usageMu.Unlock()
	var outcome fleet.Outcome
	setUsage(&outcome)
	err := o.writeUsageFile(outcome)
	o.writeLine(driver.OutputLine{UsageSoFar: &outcome})
	return err
}

func (o *output) writeUsageFile(outcome fleet.Outcome) error {
	if o.usagePath == "" {
		return nil
	}
	data, err := json.Marshal(outcome)
	if err != nil {
		return err
	}
	tmp := o.usagePath + ".new"
	if err := os.WriteFile(tmp, data, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, o.usagePath) // a reader sees the old figures or the new ones
}

// encodeLine encodes a line. It drops data that is not JSON, because the text is worth more.
func encodeLine(p driver.OutputLine) ([]byte, error) {
	if !json.Valid(p.Data) {
		p.Data = nil
	}
	return json.Marshal(p)
}

// writeLine writes a line. It does nothing if the line cannot be encoded, the output is full or a write has failed.
func (o *output) writeLine(p driver.OutputLine) {
	if line, err := encodeLine(p); err == nil {
		o.write(line)
	}
}

func (o *output) write(line []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil || o.full {
		return
	}
	if _, o.err = o.file.Write(append(line, '\n')); o.err != nil {
		return
	}
	o.size += int64(len(line)) + 1
	o.full = o.size > o.limit
}

// finish writes a last line, even if the output is full, and closes the file. It returns the first error of writing any line, and
// an error if the last line cannot be encoded.
func (o *output) finish(p driver.OutputLine) error {
	line, err := encodeLine(p)
	o.mu.Lock()
	o.full = false
	o.mu.Unlock()
	if err == nil {
		o.write(line)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return errors.Join(err, o.err, o.file.Close())
}

// state reports whether the output is full, and returns the first error of writing a line.
func (o *output) state() (full bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.full, o.err
}
