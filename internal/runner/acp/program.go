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

// program is the agent program. On Linux it leads its own process group, so that signals to the client's group do not
// end it.
type program struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	out   *os.File
	ended chan struct{} // closed when the program has ended and was waited for
	err   error         // the program's error, to be read after ended is closed
}

func startProgram(argv []string) (*program, error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = attributes()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	// cmd.StdoutPipe cannot be used, because Wait closes that pipe, perhaps before all output was read.
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

// end closes the program's input and waits until the program has ended. After patience it sends SIGTERM to the
// program's process group, and after termTime SIGKILL.
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
			_ = p.cmd.Process.Signal(step.act) // if the program does not lead a group
		}
		timer.Stop()
	}
	<-p.ended
	// The supervisor of the run ends all other processes. It finds them by their parents.
}

// lineReader reads the program's lines. It handles an update before it passes the following lines to the connection.
// Otherwise the connection could handle a request for permission before the update that describes it.
type lineReader struct {
	lines  *bufio.Reader
	update func(params json.RawMessage)
	rest   []byte // unread rest of a line for the connection

	mu   sync.Mutex
	last string // the last line that is not JSON, such as an error message of a program that does not speak the protocol
}

// maxUnknownKept limits how much of a line that is not JSON is kept, in bytes.
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

// take handles the line if it is an update. It keeps a line that is not JSON for error texts, and any other line for
// the connection.
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

func (w *lineReader) unknownLine() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last
}
