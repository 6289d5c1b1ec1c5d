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
	_ "fleet/internal/runner/proxy" // the sandbox starts it by its name
	"fleet/internal/runner/sandbox"
)

// HandshakeFD is the file descriptor on which the shim sends the server a Handshake in JSON. The server may have ended
// before that.
const HandshakeFD = 3

// Handshake is the first message of a shim.
type Handshake struct {
	Started bool   `json:"started,omitempty"`
	Taken   bool   `json:"taken,omitempty"` // the run is claimed by another shim, so this shim does nothing
	Error   string `json:"error,omitempty"` // why the child did not start
	// Shared means that the shim could not prepare its own pid namespace. It has not claimed the run.
	Shared bool `json:"shared,omitempty"`
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

func supervise(run Run, pipe io.WriteCloser) error {
	tell := func(h Handshake) {
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
	self, separate, err := process.Enter()
	if err != nil {
		tell(Handshake{Shared: separate, Error: err.Error()})
		return err
	}
	if !separate {
		if self, err = process.Self(); err != nil {
			return err
		}
		if err := process.Tag(spec.Mark); err != nil {
			return err
		}
	}
	// The signals are caught, and not ignored, because the child would inherit ignored signals.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP, syscall.SIGINT, syscall.SIGUSR1, syscall.SIGUSR2)
	died, sigterm := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(died, syscall.SIGCHLD)
	signal.Notify(sigterm, syscall.SIGTERM)

	switch err := writeOnce(run.Path("claim"), Claim{Shim: self, Separate: separate}); {
	case errors.Is(err, os.ErrExist):
		tell(Handshake{Taken: true})
		return nil
	case err != nil:
		return err
	}
	if err := process.AdoptOrphans(); err != nil {
		return notStarted(run, spec, fmt.Errorf("this process cannot adopt orphans: %w", err), tell)
	}
	s, err := start(run, spec, separate)
	if err != nil {
		return notStarted(run, spec, err, tell)
	}
	spec.log("started") // before the handshake, so that this line precedes the line about the end
	tell(Handshake{Started: true})
	exit := s.loop(died, sigterm)
	s.control.finish()
	if s.control.questions != nil {
		s.control.questions.finish()
	}
	run.removeSecrets(spec.Secrets)
	_ = s.control.listener.Close()
	_ = os.Remove("control")
	logEnd(spec, exit)
	err = writeOnce(run.Path("exit.json"), exit)
	run.removeSpares()
	s.control.notifyWatchers() // watchers wait for the end of the run
	return err
}

func notStarted(run Run, spec Spec, cause error, tell func(Handshake)) error {
	now := time.Now().UTC()
	run.removeSecrets(spec.Secrets)
	err := writeOnce(run.Path("exit.json"), Exit{End: NotStarted, Code: -1, Reason: cause.Error(), Started: now, Ended: now})
	tell(Handshake{Error: cause.Error()})
	return errors.Join(cause, err)
}

// start opens the files of the run, and starts the child and the goroutines that serve it.
func start(run Run, spec Spec, separate bool) (*supervisor, error) {
	listener, err := net.Listen("unix", "control")
	if err != nil {
		return nil, err
	}
	s := &supervisor{run: run, spec: spec, separate: separate, control: &control{
		listener:   listener,
		interrupts: make(chan controlRequest),
		done:       make(chan struct{}),
		sentIDs:    map[string]bool{},
		watchers:   map[chan struct{}]struct{}{},
	}}
	var ours, childs []*os.File // files for the shim, and files for the child, which the shim closes after the start
	defer func() {
		for _, f := range childs {
			_ = f.Close()
		}
	}()
	fail := func(err error) (*supervisor, error) {
		for _, f := range ours {
			_ = f.Close()
		}
		return nil, errors.Join(err, listener.Close())
	}
	if spec.Questions != nil {
		if s.control.questions, err = newQuestions(*spec.Questions, run, s.control.notifyWatchers); err != nil {
			return fail(err)
		}
		ours = append(ours, s.control.questions.pipe, s.control.questions.journal)
	}
	stdin, err := s.openInput()
	if err != nil {
		return fail(err)
	}
	childs = append(childs, stdin)
	if slices.Contains(spec.Secrets, spec.StdinFile) { // otherwise processes of the child could read it
		if err := os.Remove(run.Path(spec.StdinFile)); err != nil {
			return fail(err)
		}
	}
	files := []*os.File{stdin, nil, nil}
	var theirs *os.File
	switch {
	case spec.Mailbox:
		var own *os.File
		if own, theirs, err = mailbox.Pair(); err == nil {
			s.control.mailbox = mailbox.NewSender(own, recordMessage)
		}
	case spec.Messages:
		theirs, s.control.messages, err = os.Pipe()
	}
	if err != nil {
		return fail(err)
	}
	if theirs != nil {
		childs, files = append(childs, theirs), append(files, theirs) // as MessagesFD
	}
	sink := func(name string, limit int64) (*os.File, error) {
		to, err := newOutput(name, limit, spec.MaxOutput, s.control.notifyWatchers)
		if err != nil {
			return nil, err
		}
		r, w, err := os.Pipe()
		if err != nil {
			return nil, errors.Join(err, to.file.Close())
		}
		ours, childs = append(ours, r, to.file), append(childs, w)
		s.pumps = append(s.pumps, &pump{from: r, to: to, done: make(chan struct{})})
		return w, nil
	}
	attributes := process.Attributes()
	if spec.Finishes {
		process.SignalAtParentsEnd(attributes, syscall.SIGTERM)
	}
	if spec.Terminal != nil {
		var tty *os.File
		if s.control.terminal, tty, err = newTerminal(*spec.Terminal); err != nil {
			return fail(err)
		}
		ours, childs = append(ours, s.control.terminal.pty), append(childs, tty)
		files[0], files[1], files[2] = tty, tty, tty
		attributes.Setpgid, attributes.Setsid, attributes.Setctty = false, true, true // a session leads its own process group
	} else if files[1], files[2], err = s.openOutputs(sink); err != nil {
		return fail(err)
	}
	s.started = time.Now().UTC()
	p, err := startChild(spec, &os.ProcAttr{Dir: spec.Dir, Env: os.Environ(), Files: files, Sys: attributes})
	if err != nil {
		return fail(err)
	}
	s.pid = p.Pid
	process.LowerPriority(s.pid)
	_ = p.Release()                                            // the supervisor waits for all its children itself
	if id, err := process.Of(s.pid); err == nil && !separate { // the kernel kills the processes of a namespace
		if err := writeOnce(run.Path("child"), id); err != nil {
			s.problem = err.Error()
		}
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

// openOutputs makes the files for the child's output.
func (s *supervisor) openOutputs(sink func(name string, limit int64) (*os.File, error)) (stdout, stderr *os.File, err error) {
	if stdout, err = sink("output", max(s.spec.RawOutput, s.spec.MaxOutput)); err != nil {
		return nil, nil, err
	}
	if s.spec.Requests {
		s.modelRequests = newModelRequests(s.pumps[0].to)
		s.pumps[0].modelRequests = s.modelRequests
	}
	if !s.spec.SplitStderr {
		return stdout, stdout, nil
	}
	stderr, err = sink("stderr", s.spec.MaxOutput)
	return stdout, stderr, err
}

func startChild(spec Spec, attr *os.ProcAttr) (*os.Process, error) {
	if spec.Sandbox != nil {
		return sandbox.Start(*spec.Sandbox, spec.Program, spec.Argv, attr)
	}
	return os.StartProcess(spec.Program, spec.Argv, attr)
}

// MessagesFD is the file descriptor from which the child reads messages: one per line, or as a mailbox.Receiver.
const MessagesFD = 3

// openInput opens the standard input of the child: StdinFile, or an empty input if there is no StdinFile.
func (s *supervisor) openInput() (*os.File, error) {
	if s.spec.StdinFile != "" {
		return os.Open(filepath.Base(s.spec.StdinFile))
	}
	return os.Open(os.DevNull)
}
