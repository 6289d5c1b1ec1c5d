package acp

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
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
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM, syscall.SIGINT)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		<-told
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

// messages reads the messages of the run.
type messages struct {
	file *os.File
	got  chan string
}

// openMessages returns the messages from the file descriptor; none if it is 0.
func openMessages(fd int) *messages {
	m := &messages{got: make(chan string, 256)}
	if fd == 0 {
		return m
	}
	syscall.CloseOnExec(fd)           // the program must not inherit it
	_ = syscall.SetNonblock(fd, true) // so that Close ends a Read
	m.file = os.NewFile(uintptr(fd), "messages")
	go m.read(m.file)
	return m
}

func (m *messages) read(from io.Reader) {
	for r := bufio.NewReader(from); ; {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		var text string
		if json.Unmarshal([]byte(line), &text) == nil && text != "" {
			m.got <- text
		}
	}
}

// next returns a message that has arrived; false if there is none.
func (m *messages) next() (string, bool) {
	select {
	case text := <-m.got:
		return text, true
	default:
		return "", false
	}
}

func (m *messages) close() {
	if m.file != nil {
		_ = m.file.Close()
	}
}
