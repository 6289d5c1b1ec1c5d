// Package program starts and ends the agent program that a client process of a run talks to.
package program

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// Program is an agent program. On Linux it leads its own process group, so that signals to the client's group do not
// end it.
type Program struct {
	Stdin  io.WriteCloser
	Stdout *os.File
	Done   chan struct{} // closed when the program has ended and was waited for
	Err    error         // how the program failed; nil if it ended with exit code 0; valid when Done is closed

	cmd *exec.Cmd
}

// Start starts the program argv[0] with the other arguments. The program writes its stderr to the client's stderr. On Linux, the
// program dies with the thread that calls Start.
func Start(argv []string) (*Program, error) {
	if len(argv) == 0 {
		return nil, errors.New("the job names no program")
	}
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
	p := &Program{cmd: cmd, Stdin: stdin, Stdout: r, Done: make(chan struct{})}
	go func() {
		p.Err = cmd.Wait()
		close(p.Done)
	}()
	return p, nil
}

// ExitCode returns the program's exit code, as a shell reports it. The program must have ended.
func (p *Program) ExitCode() int {
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return p.cmd.ProcessState.ExitCode()
}

// EndStep is a signal for the program, with the time that the program has to end before it gets the signal.
type EndStep struct {
	Wait   time.Duration
	Signal syscall.Signal
}

// End closes the program's input, takes the steps one after the other until the program has ended, and waits for it.
// Signals go to the program's process group. The supervisor of the run ends all other processes that the program started.
func (p *Program) End(steps ...EndStep) {
	_ = p.Stdin.Close()
	for _, step := range steps {
		select {
		case <-p.Done:
		case <-time.After(step.Wait):
			_ = syscall.Kill(-p.cmd.Process.Pid, step.Signal)
			_ = p.cmd.Process.Signal(step.Signal) // if the program does not lead a group
		}
	}
	<-p.Done
}
