//go:build cgo

package cagent

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"strconv"
	"sync"
	"sync/atomic"

	"fleet/internal/fleet"
	"fleet/internal/place/agentfile"
	"fleet/internal/runner/driver"
)

// output is the destination to which a run writes its outputs, one per line. It is a file, or the pipe to the
// supervisor of the run's process. The cursor of an output is the offset of the end of its line.
type output struct {
	limit int64
	first atomic.Int64 // the end of the lines of earlier servers, until Follow has used it; then -1

	mu    sync.Mutex
	file  *os.File
	size  int64
	full  bool
	err   error
	grown chan struct{} // closed and replaced by a new channel with every output
}

// newOutput opens the file and removes an incomplete last line, which a crash may have left.
func newOutput(path string, limit int64) (*output, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	o := outputTo(f, limit)
	defer func() { o.first.Store(o.size) }()
	for r := bufio.NewReaderSize(f, 64<<10); err == nil; {
		var line []byte
		if line, err = r.ReadBytes('\n'); err == nil {
			o.size += int64(len(line))
		}
	}
	if errors.Is(err, io.EOF) {
		err = f.Truncate(o.size)
	}
	if err == nil {
		_, err = f.Seek(o.size, io.SeekStart)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return o, nil
}

func outputTo(f *os.File, limit int64) *output {
	return &output{file: f, limit: limit, grown: make(chan struct{})}
}

// add writes a line. It does nothing if the output is full or a write has failed.
func (o *output) add(p driver.Said) {
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
	close(o.grown)
	o.grown = make(chan struct{})
}

// steps returns how often the output has each tool call and result. A key is the type of the step's data and the call's id.
func (o *output) steps() map[string]int {
	steps := map[string]int{}
	for r := bufio.NewReader(io.NewSectionReader(o.file, 0, o.size)); ; {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return steps
		}
		var s struct{ Data struct{ Type, ID string } }
		if json.Unmarshal(line, &s) == nil && s.Data.ID != "" {
			steps[s.Data.Type+s.Data.ID]++
		}
	}
}

// end writes a last line, even if the output is full, and closes the file.
func (o *output) end(p driver.Said) error {
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

func (o *output) more() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.grown
}

func (o *output) close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.file.Close()
}

// Follow implements fleet.Runner.
func (w inProcess) Follow(ctx context.Context, r fleet.Run, cursor string, sink func(fleet.Output) error) (fleet.Outcome, error) {
	b, a := w.place, w.agent
	if err := ctx.Err(); err != nil {
		return fleet.Outcome{}, err
	}
	x := b.agent(a.UID)
	if x == nil {
		return fleet.Outcome{}, notGiven(a)
	}
	live, err := b.resumed(ctx, x, r.TaskID)
	if err != nil {
		return fleet.Outcome{}, err
	}
	h := x.runDir(r.TaskID)
	if live == nil && !h.exists("run.json") {
		return fleet.Outcome{}, notGiven(a)
	}
	f, err := agentfile.Open(h.path("output"))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f = nil // nothing was written
	case err != nil:
		return fleet.Outcome{}, hostError("cannot read the run's output", err)
	default:
		defer func() { _ = f.Close() }()
	}
	reader := &follower{file: f, sink: sink}
	if reader.at, err = strconv.ParseInt("0"+cursor, 10, 64); err != nil {
		return fleet.Outcome{}, fleet.Invalid(fleet.ReasonInvalidArgument, "cursor", "%q is not a cursor of a run", clip(cursor, 40))
	}
	if live != nil { // a crash of the machine may have shortened the file, and the run continues at its end
		if first := live.out.first.Swap(-1); first >= 0 {
			reader.at = min(reader.at, first)
		}
	}
	if err := reader.align(); err != nil {
		return fleet.Outcome{}, err
	}
	if live != nil {
		return reader.follow(ctx, live)
	}
	if err := reader.read(ctx); err != nil {
		return fleet.Outcome{}, err
	}
	return b.outcome(h)
}

func notGiven(a fleet.Agent) *fleet.Error {
	return fleet.Errorf(fleet.ReasonTaskNotFound, "agent %q has no such task", a.Name)
}

// follower reads the lines of an output and passes them to sink.
type follower struct {
	file *os.File
	at   int64
	sink func(fleet.Output) error
}

// follow passes on outputs until the run ends, and returns the run's outcome.
func (f *follower) follow(ctx context.Context, r *live) (fleet.Outcome, error) {
	for {
		grown, ended := r.out.more(), false
		select {
		case <-r.done:
			ended = true
		default:
		}
		if err := f.read(ctx); err != nil {
			return fleet.Outcome{}, err
		}
		if ended {
			return r.result()
		}
		select {
		case <-grown:
		case <-r.done:
		case <-ctx.Done():
			return fleet.Outcome{}, ctx.Err()
		}
	}
}

// align moves f.at to the end of a line. It is somewhere else if a crash of the machine has shortened the file.
func (f *follower) align() error {
	if f.file == nil || f.at == 0 {
		return nil
	}
	size, err := f.file.Seek(0, io.SeekEnd)
	if err == nil {
		f.at = min(f.at, size)
		_, err = f.file.Seek(max(f.at-1, 0), io.SeekStart)
	}
	if err != nil {
		return hostError("cannot read the run's output", err)
	}
	line, err := bufio.NewReader(f.file).ReadBytes('\n') // only the line's end if f.at is there
	if err == nil {
		f.at += int64(len(line)) - 1
	} else if !errors.Is(err, io.EOF) {
		return hostError("cannot read the run's output", err)
	}
	return nil
}

// read passes on the complete lines from f.at on.
func (f *follower) read(ctx context.Context) error {
	if f.file == nil {
		return nil
	}
	if _, err := f.file.Seek(f.at, io.SeekStart); err != nil {
		return hostError("cannot read the run's output", err)
	}
	for r := bufio.NewReaderSize(f.file, 64<<10); ; {
		line, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil // the last line is incomplete: the run will complete it, or a crash interrupted the write
		}
		if err != nil {
			return hostError("cannot read the run's output", err)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		var p driver.Said
		if err := json.Unmarshal(line, &p); err != nil {
			return hostError("cannot read the run's output", err)
		}
		at := f.at + int64(len(line))
		if err := f.sink(fleet.Output{Cursor: strconv.FormatInt(at, 10), Step: p.Step, Text: p.Text, Data: p.Data, Open: p.Open}); err != nil {
			return err
		}
		f.at = at
	}
}
