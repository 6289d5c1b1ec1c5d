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

// output is the pipe to the supervisor of the run, to which a run writes its outputs, one per line.
type output struct {
	limit int64
	spent string // path of driver.SpentFile; empty: it is not written

	telling sync.Mutex

	mu   sync.Mutex
	file *os.File
	size int64
	full bool
	err  error
}

// tell writes what the run has used so far, as bill says, to the file and to the output.
func (o *output) tell(bill func(*fleet.Outcome)) error {
	o.telling.Lock() // so that the newest figures are written last
	defer o.telling.Unlock()
	var spent fleet.Outcome
	bill(&spent)
	err := o.keep(spent)
	o.add(driver.OutputLine{Spent: &spent})
	return err
}

func (o *output) keep(spent fleet.Outcome) error {
	if o.spent == "" {
		return nil
	}
	data, err := json.Marshal(spent)
	if err != nil {
		return err
	}
	tmp := o.spent + ".new"
	if err := os.WriteFile(tmp, data, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, o.spent) // a reader sees either figures
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
