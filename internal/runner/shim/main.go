package shim

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"time"

	"fleet/internal/runner/mailbox"
	"fleet/internal/runner/process"
	_ "fleet/internal/runner/proxy" // the sandbox starts the proxy by its name
	"fleet/internal/runner/sandbox"
)

// HandshakeFD is the file descriptor on which the shim sends the server a Handshake in JSON. The server may have ended
// before that.
const HandshakeFD = 3

// Handshake tells the server whether the run has started. It is the only message of the shim on HandshakeFD.
type Handshake struct {
	Started        bool   `json:"started,omitempty"`
	AlreadyClaimed bool   `json:"taken,omitempty"` // another shim has claimed the run, so this shim does nothing
	Error          string `json:"error,omitempty"` // why the child did not start
	// NamespaceFailed means that the shim could not prepare its own pid namespace. It has not claimed the run.
	NamespaceFailed bool `json:"shared,omitempty"`
}

// Main is the main function of the shim. It executes the run in the directory args[0]. The child gets the shim's
// environment. Main returns the exit code of the shim.
func Main(args []string) int {
	if len(args) != 1 {
		fmt.Fprintln(os.Stderr, "usage: pass the directory of a run; this command is internal to Fleet")
		return 2
	}
	// The kernel kills the child when the thread that started it ends, so that thread must live as long as the shim.
	runtime.LockOSThread()
	_, _ = syscall.Setsid()          // fails if the shim is a session leader already
	syscall.CloseOnExec(HandshakeFD) // otherwise the server would wait while a descendant of the child has it open
	pipe := os.NewFile(HandshakeFD, "handshake")
	if err := supervise(Run(args[0]), pipe); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// supervise executes the run, and reports over the pipe whether it has started. supervise returns when the run has ended or could not
// be started, or if another shim has claimed the run.
func supervise(run Run, pipe io.WriteCloser) error {
	report := func(h Handshake) {
		_ = json.NewEncoder(pipe).Encode(h)
		_ = pipe.Close()
	}
	// The run's directory becomes the working directory. So it stays accessible if it is moved, and the socket's path
	// is short.
	if err := os.Chdir(string(run)); err != nil {
		return err
	}
	run = "."
	spec, err := run.Spec()
	if err != nil {
		return err
	}
	self, pidNamespace, err := process.EnterNamespace()
	if err != nil {
		report(Handshake{NamespaceFailed: pidNamespace, Error: err.Error()})
		return err
	}
	if !pidNamespace {
		if self, err = process.Self(); err != nil {
			return err
		}
		if err := process.Tag(spec.Mark); err != nil {
			return err
		}
	}
	// The signals are caught, and not ignored, because the child would inherit ignored signals.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP, syscall.SIGINT, syscall.SIGUSR1, syscall.SIGUSR2)
	sigchld, sigterm := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(sigchld, syscall.SIGCHLD)
	signal.Notify(sigterm, syscall.SIGTERM)

	switch err := writeOnce(run.Path("claim"), Claim{Shim: self, PIDNamespace: pidNamespace}); {
	case errors.Is(err, os.ErrExist):
		report(Handshake{AlreadyClaimed: true})
		return nil
	case err != nil:
		return err
	}
	if err := process.AdoptOrphans(); err != nil {
		return recordNotStarted(run, spec, fmt.Errorf("this process cannot adopt orphans: %w", err), report)
	}
	s, err := start(run, spec, pidNamespace)
	if err != nil {
		return recordNotStarted(run, spec, err, report)
	}
	spec.log("started") // before the handshake, so that this line precedes the line about the end
	report(Handshake{Started: true})
	exit := s.loop(sigchld, sigterm)
	s.control.finish()
	if s.control.questions != nil {
		s.control.questions.finish()
	}
	run.removeSecrets(spec.SecretFiles)
	_ = s.control.listener.Close()
	_ = os.Remove("control")
	logEnd(spec, exit)
	err = writeOnce(run.Path("exit.json"), exit)
	run.removeSpares()
	s.control.notifyWatchers() // watchers wait for the end of the run
	return err
}

// recordNotStarted records and reports that the program could not be started. It returns an error with the cause.
func recordNotStarted(run Run, spec Spec, cause error, report func(Handshake)) error {
	now := time.Now().UTC()
	run.removeSecrets(spec.SecretFiles)
	err := writeOnce(run.Path("exit.json"), Exit{End: NotStarted, Code: -1, Reason: cause.Error(), StartedAt: now, EndedAt: now})
	report(Handshake{Error: cause.Error()})
	return errors.Join(cause, err)
}

// start opens the files of the run, and starts the child and the goroutines that serve it. If it fails, the shim must end, which
// closes the files.
func start(run Run, spec Spec, pidNamespace bool) (*supervisor, error) {
	listener, err := net.Listen("unix", "control")
	if err != nil {
		return nil, err
	}
	s := &supervisor{run: run, spec: spec, pidNamespace: pidNamespace, end: Exited, control: &control{
		listener:   listener,
		interrupts: make(chan controlRequest),
		done:       make(chan struct{}),
		sentIDs:    map[string]bool{},
		watchers:   map[chan struct{}]struct{}{},
	}}
	files, err := s.openFiles()
	if err == nil {
		err = s.startChild(files)
	}
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	for _, f := range files {
		_ = f.Close()
	}
	for _, p := range s.pumps {
		go p.run()
	}
	if s.control.questions != nil {
		go s.control.questions.serve()
	}
	go s.control.serve()
	return s, nil
}

// openFiles opens the files of the run, and returns those for the child, by file descriptor.
func (s *supervisor) openFiles() (files []*os.File, err error) {
	if s.spec.Questions != nil {
		if s.control.questions, err = newQuestions(*s.spec.Questions, s.run, s.control.notifyWatchers); err != nil {
			return nil, err
		}
	}
	stdin, err := s.openInput()
	if err != nil {
		return nil, err
	}
	files = []*os.File{stdin, nil, nil}
	if messages, err := s.openMessages(); err != nil {
		return nil, err
	} else if messages != nil {
		files = append(files, messages) // as MessagesFD
	}
	if s.spec.Terminal != nil {
		_ = stdin.Close()
		var tty *os.File
		s.control.terminal, tty, err = newTerminal(*s.spec.Terminal)
		files[0], files[1], files[2] = tty, tty, tty
		return files, err
	}
	if files[1], err = s.openOutput("output", max(s.spec.MaxRawOutput, s.spec.MaxOutput)); err != nil {
		return nil, err
	}
	if s.spec.ReportsRequests {
		s.modelRequests = newModelRequests(s.pumps[0].to)
		s.pumps[0].modelRequests = s.modelRequests
	}
	if files[2] = files[1]; s.spec.SplitStderr {
		files[2], err = s.openOutput("stderr", s.spec.MaxOutput)
	}
	return files, err
}

// openInput opens the standard input of the child: StdinFile, or an empty input if there is no StdinFile.
func (s *supervisor) openInput() (*os.File, error) {
	path := os.DevNull
	if s.spec.StdinFile != "" {
		path = filepath.Base(s.spec.StdinFile)
	}
	stdin, err := os.Open(path)
	if err == nil && slices.Contains(s.spec.SecretFiles, s.spec.StdinFile) { // so that processes of the child cannot open it
		err = os.Remove(s.run.Path(s.spec.StdinFile))
	}
	return stdin, err
}

// MessagesFD is the file descriptor from which the child reads messages: one per line, or as a mailbox.Receiver.
const MessagesFD = 3

// openMessages returns the file for MessagesFD, or nil if the child reads no messages.
func (s *supervisor) openMessages() (child *os.File, err error) {
	switch {
	case s.spec.ConfirmsMessages:
		conn, fd, err := mailbox.Pair()
		if err != nil {
			return nil, err
		}
		s.control.mailbox = mailbox.NewSender(conn, recordMessage)
		return os.NewFile(uintptr(fd), "mailbox of the child"), nil
	case s.spec.ReadsMessages:
		child, s.control.messages, err = os.Pipe()
	}
	return child, err
}

// openOutput creates the output with the name, and returns a pipe for the child. A new pump copies the data from the pipe to the
// output.
func (s *supervisor) openOutput(name string, limit int64) (*os.File, error) {
	to, err := newOutput(name, limit, s.spec.MaxOutput, s.control.notifyWatchers)
	if err != nil {
		return nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	s.pumps = append(s.pumps, &pump{from: r, to: to, done: make(chan struct{})})
	return w, nil
}

func (s *supervisor) startChild(files []*os.File) error {
	attr := &os.ProcAttr{Dir: s.spec.Dir, Env: os.Environ(), Files: files, Sys: process.Attributes()}
	if s.spec.EndsOnSIGTERM {
		process.SetParentDeathSignal(attr.Sys, syscall.SIGTERM)
	}
	if s.spec.Terminal != nil {
		attr.Sys.Setpgid, attr.Sys.Setsid, attr.Sys.Setctty = false, true, true // a session leads its own process group
	}
	s.startedAt = time.Now().UTC()
	var p *os.Process
	var err error
	if s.spec.Sandbox != nil {
		p, err = sandbox.Start(*s.spec.Sandbox, s.spec.Program, s.spec.Argv, attr)
	} else {
		p, err = os.StartProcess(s.spec.Program, s.spec.Argv, attr)
	}
	if err != nil {
		return err
	}
	s.pid = p.Pid
	process.LowerPriority(s.pid)
	_ = p.Release()                                                  // the supervisor waits for all its children itself
	if id, err := process.Of(s.pid); err == nil && !s.pidNamespace { // the kernel kills the processes of a namespace
		if err := writeOnce(s.run.Path("child"), id); err != nil {
			s.problem = err.Error()
		}
	}
	return nil
}
