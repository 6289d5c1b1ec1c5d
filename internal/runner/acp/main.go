package acp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
)

// Main executes the job in the file args[0] in the current directory. It returns the exit code, which is 0 if every
// turn ended normally or was cancelled.
func Main(args []string) int {
	if len(args) != 1 {
		fmt.Fprintln(os.Stderr, "usage: pass the file of a job; this command is internal to Fleet")
		return 2
	}
	runtime.LockOSThread() // the program dies with the thread that starts it
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		<-signals
		cancel()
	}()
	out := &output{to: os.Stdout}
	j, err := readJob(args[0])
	if err == nil {
		err = run(ctx, j, out)
	}
	if err != nil {
		out.write(Line{Type: LineError, Text: err.Error()})
		return 1
	}
	return 0
}

// messages are the messages of the run. A goroutine reads them, so that the pipe does not become full.
type messages struct {
	file *os.File

	mu   sync.Mutex
	rest []byte // the beginning of a line
	got  []string
}

// openMessages returns the messages that arrive on the file descriptor. If fd is 0, no messages arrive.
func openMessages(fd int) *messages {
	m := &messages{}
	if fd == 0 {
		return m
	}
	syscall.CloseOnExec(fd)           // the program must not inherit the file descriptor
	_ = syscall.SetNonblock(fd, true) // so that Close ends a Read
	m.file = os.NewFile(uintptr(fd), "messages")
	if conn, err := m.file.SyscallConn(); err == nil {
		go func() { _ = conn.Read(m.take) }()
	}
	return m
}

// take reads what is in the pipe without waiting, and reports whether the pipe has ended.
func (m *messages) take(fd uintptr) (ended bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	buffer := make([]byte, 16<<10)
	for {
		n, err := syscall.Read(int(fd), buffer)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EAGAIN):
			return false
		case err != nil || n <= 0:
			return true
		}
		m.rest = append(m.rest, buffer[:n]...)
		for {
			line, rest, found := bytes.Cut(m.rest, []byte("\n"))
			if !found {
				break
			}
			m.rest = rest
			var text string
			if json.Unmarshal(line, &text) == nil && text != "" {
				m.got = append(m.got, text)
			}
		}
	}
}

// next returns the next message that has arrived, or false if no message has arrived. It reads the pipe itself, because
// a message counts as delivered for its sender as soon as it is in the pipe.
func (m *messages) next() (string, bool) {
	if m.file == nil {
		return "", false
	}
	if conn, err := m.file.SyscallConn(); err == nil {
		_ = conn.Control(func(fd uintptr) { m.take(fd) })
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.got) == 0 {
		return "", false
	}
	text := m.got[0]
	m.got = m.got[1:]
	return text, true
}

func (m *messages) close() {
	if m.file != nil {
		_ = m.file.Close()
	}
}
