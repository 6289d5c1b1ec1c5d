package acp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/coder/acp-go-sdk"
)

// program is the agent program. It leads a process group of its own, so that what is meant for the client does not end it.
type program struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	out   *os.File
	ended chan struct{} // closed when it has ended and was waited for
	err   error         // how it ended
}

func startProgram(argv []string) (*program, error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = attributes()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	// A pipe of our own: Wait would close one of cmd's while there is still something in it.
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout = w
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("the program %s cannot be started: %w", argv[0], err)
	}
	_ = w.Close()
	p := &program{cmd: cmd, stdin: stdin, out: r, ended: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

// Times that a program gets to end.
const (
	closeTime = 2 * time.Second // after its input has ended
	termTime  = time.Second     // after TERM
)

// end ends the program and whatever is left of its group.
func (p *program) end(patience time.Duration) {
	_ = p.stdin.Close()
	for _, step := range []struct {
		time time.Duration
		act  syscall.Signal
	}{{patience, syscall.SIGTERM}, {termTime, syscall.SIGKILL}} {
		timer := time.NewTimer(step.time)
		select {
		case <-p.ended:
		case <-timer.C:
			_ = syscall.Kill(-p.cmd.Process.Pid, step.act)
			_ = p.cmd.Process.Signal(step.act) // where it leads no group
		}
		timer.Stop()
	}
	<-p.ended
	// What it left behind is for the supervisor of the run, who finds it by its parents.
}

// wire reads the lines of the program. It hands updates over one after another, before it lets the connection see what comes
// after them: the connection would handle a request for a permission beside the updates that say what it is about.
type wire struct {
	lines  *bufio.Reader
	update func(params json.RawMessage)
	rest   []byte // of a line for the connection

	mu   sync.Mutex
	last string // the last line that is not JSON: a program that does not speak the protocol says there what it has to say
}

// maxStrange is how much of a line that is not JSON is remembered, in bytes.
const maxStrange = 500

// Read implements io.Reader.
func (w *wire) Read(p []byte) (int, error) {
	for len(w.rest) == 0 {
		line, err := w.lines.ReadBytes('\n')
		if line = bytes.TrimSpace(line); len(line) > 0 {
			w.take(line)
		}
		if err != nil && len(w.rest) == 0 {
			return 0, err
		}
	}
	n := copy(p, w.rest)
	w.rest = w.rest[n:]
	return n, nil
}

// take hands the line over or keeps it for the connection.
func (w *wire) take(line []byte) {
	var m struct {
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
	}
	switch err := json.Unmarshal(line, &m); {
	case err != nil && !json.Valid(line):
		w.mu.Lock()
		w.last = string(line[:min(len(line), maxStrange)])
		w.mu.Unlock()
	case err == nil && m.Method == acp.ClientMethodSessionUpdate:
		w.update(m.Params)
	default:
		w.rest = append(line, '\n')
	}
}

func (w *wire) strange() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last
}
