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

// program is the agent program. It leads its own process group, so that signals to the client do not end it.
type program struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	out   *os.File
	ended chan struct{} // closed when it has ended and was waited for
	err   error         // its error at the end
}

func startProgram(argv []string) (*program, error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = attributes()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	// Our own pipe, because Wait would close one of cmd's before it was read to its end.
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout = w
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("cannot start the program %s: %w", argv[0], err)
	}
	_ = w.Close()
	p := &program{cmd: cmd, stdin: stdin, out: r, ended: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

// Time limits for the end of a program.
const (
	closeTime = 2 * time.Second // after its input was closed
	termTime  = time.Second     // after SIGTERM
)

// end ends the program and the remaining processes of its group.
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
			_ = p.cmd.Process.Signal(step.act) // if it leads no group
		}
		timer.Stop()
	}
	<-p.ended
	// The supervisor of the run ends the other processes, which it finds by their parents.
}

// lineReader reads the program's lines. It handles an update before it passes the following lines to the connection.
// Otherwise the connection could handle a request for permission before the update that describes it.
type lineReader struct {
	lines  *bufio.Reader
	update func(params json.RawMessage)
	rest   []byte // of a line for the connection

	mu   sync.Mutex
	last string // the last line that is not JSON; programs with another protocol explain themselves there
}

// maxUnknownKept limits how much is kept of a line that is not JSON, in bytes.
const maxUnknownKept = 500

// Read implements io.Reader.
func (w *lineReader) Read(p []byte) (int, error) {
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

// take handles the line, or keeps it for the connection.
func (w *lineReader) take(line []byte) {
	var m struct {
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
	}
	switch err := json.Unmarshal(line, &m); {
	case err != nil && !json.Valid(line):
		w.mu.Lock()
		w.last = string(line[:min(len(line), maxUnknownKept)])
		w.mu.Unlock()
	case err == nil && m.Method == acp.ClientMethodSessionUpdate:
		w.update(m.Params)
	default:
		w.rest = append(line, '\n')
	}
}

func (w *lineReader) strange() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last
}
