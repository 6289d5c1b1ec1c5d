package shim

import (
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"fleet/internal/place/agentfile"
	"fleet/internal/runner/process"
)

const (
	// strayGrace is how long what the child leaves behind gets to end after TERM, before KILL.
	strayGrace = time.Second
	// killAgain is how often KILL is repeated, for what was started meanwhile.
	killAgain = 10 * time.Millisecond
	// giveUp is how long KILL is repeated: what is left then hangs in the kernel.
	giveUp = 10 * time.Second
	// drainTime is how long the output may take to end when nobody is left to write. It only does when the child
	// handed its output to a process that is not its own.
	drainTime = 2 * time.Second
)

// supervisor is what a shim knows of its child. Its loop is one goroutine, which alone signals and waits, so that a
// pid it signals cannot have been given to another process.
type supervisor struct {
	run     Run
	spec    Spec
	pid     int
	started time.Time
	control *control
	pumps   []*pump
	trouble string

	requests *requests // nil: it does not tell when it asks its model

	end     End
	reason  string
	exited  bool // the child has ended and was waited for
	status  syscall.WaitStatus
	orphans bool // the shim has other children
	termed  bool // what the child left behind was asked to end
	killing bool
}

// loop runs, woken when a child has died or the shim was told to end, until nothing is left of the child, its descendants and its output.
func (s *supervisor) loop(died, told <-chan os.Signal) Exit {
	s.end = Exited
	var deadline, kill, again, hopeless, impatient <-chan time.Time
	var quiet <-chan struct{}
	var patience time.Time // until when a request under way is waited for
	if s.spec.Timeout > 0 {
		deadline = time.After(s.spec.Timeout)
	}
	for {
		s.reap()
		if s.exited {
			strays := s.strays()
			if !s.orphans && len(strays) == 0 {
				break
			}
			if !s.termed {
				s.termed = true
				signalAll(strays, syscall.SIGTERM)
				kill = time.After(strayGrace)
			}
		}
		if s.killing {
			s.killAll()
			again = time.After(killAgain)
			if hopeless == nil {
				hopeless = time.After(giveUp)
			}
		}
		select {
		case <-died:
		case <-told:
			if !s.exited && s.end == Exited {
				s.interrupt("the machine shut the run's supervisor down")
				kill = time.After(s.spec.Grace)
			}
		case <-deadline:
			if !s.exited { // also when it was asked to end before, and did not
				if s.end == Exited {
					s.end = Deadline
				}
				s.terminate()
				kill = time.After(s.spec.Grace)
			}
		case o := <-s.control.orders:
			switch {
			case s.exited:
			case !o.Kill && s.requests != nil && s.requests.busy():
				s.end, s.reason = s.ended(o.Reason)
				linger := o.Linger
				if linger == 0 {
					linger = s.spec.Grace * 3 / 4 // the rest is for what TERM takes
				}
				if until := time.Now().Add(linger); quiet == nil || until.Before(patience) {
					quiet, patience, impatient = s.requests.quiet, until, time.After(linger)
				}
			default:
				s.interrupt(o.Reason)
			}
			s.killing = s.killing || o.Kill
		case <-quiet:
			if !s.exited && !s.requests.busy() {
				s.terminate()
			}
		case <-impatient:
			if !s.exited {
				s.terminate()
			}
		case <-kill:
			s.killing = true
		case <-again:
		case <-hopeless:
			s.trouble = "processes of the run could not be killed: the kernel does not let go of them"
			return s.exit()
		}
	}
	return s.exit()
}

// interrupt asks the child to end, since somebody wants it to.
func (s *supervisor) interrupt(reason string) {
	s.end, s.reason = s.ended(reason)
	s.terminate()
}

// ended is how the run ends when somebody asks for it now: as it was before, if it was asked to end before.
func (s *supervisor) ended(reason string) (End, string) {
	if s.end == Exited {
		return Interrupted, reason
	}
	return s.end, s.reason
}

// terminate sends TERM to the child's group. The child was not waited for, so the group is its own.
func (s *supervisor) terminate() {
	_ = syscall.Kill(-s.pid, syscall.SIGTERM)
	_ = syscall.Kill(-s.pid, syscall.SIGCONT) // one that is suspended would not hear it
}

// reap waits for the children that have ended: the child, and orphans that became the shim's.
func (s *supervisor) reap() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil: // ECHILD: no child is left, so nothing that descends from one
			s.orphans = false
			return
		case pid == 0:
			s.orphans = true
			return
		case pid == s.pid:
			s.exited, s.status = true, status
		}
	}
}

// strays returns what the child left behind.
func (s *supervisor) strays() []process.Entry {
	if s.orphans {
		found, err := process.Descendants(os.Getpid())
		if err != nil {
			s.trouble = err.Error()
		}
		return found
	}
	if process.Adopts {
		return nil // where orphans become the shim's children, none of them means none at all
	}
	found, _ := process.Members(s.pid)
	return found
}

// killAll kills the child and everything that descends from it, once.
func (s *supervisor) killAll() {
	if !s.exited {
		_ = syscall.Kill(-s.pid, syscall.SIGKILL)
	}
	found := s.strays()
	groups := map[int]bool{}
	for _, e := range found {
		// A group at once, since killing one by one can lose against a program that keeps forking.
		if e.Group != os.Getpid() && !groups[e.Group] {
			groups[e.Group] = true
			_ = syscall.Kill(-e.Group, syscall.SIGKILL)
		}
	}
	signalAll(found, syscall.SIGKILL)
}

func signalAll(entries []process.Entry, sig syscall.Signal) {
	for _, e := range entries {
		_ = e.Signal(sig)
	}
}

// exit collects how it went.
func (s *supervisor) exit() Exit {
	close(s.control.done)
	drained := time.After(drainTime)
	e := Exit{End: s.end, Code: -1, Reason: s.reason, Started: s.started, Ended: time.Now().UTC()}
	for _, p := range s.pumps {
		select {
		case <-p.done:
		case <-drained:
			_ = p.from.SetReadDeadline(time.Now())
			<-p.done
		}
		if p.to.err != nil {
			s.trouble = "the output could not be kept: " + p.to.err.Error()
		}
	}
	e.Trouble = s.trouble
	switch {
	case s.exited && s.status.Exited():
		e.Code = s.status.ExitStatus()
	case s.exited && s.status.Signaled():
		e.Signal = signalName(s.status.Signal())
	}
	return e
}

// pump moves what the child puts out into files.
type pump struct {
	from     *os.File
	to       *output
	requests *requests // looks at what passes; nil: nobody does
	done     chan struct{}
}

func (p *pump) run() {
	defer close(p.done)
	var to io.Writer = p.to
	if p.requests != nil {
		to = p.requests
	}
	_, _ = io.CopyBuffer(to, struct{ io.Reader }{p.from}, make([]byte, 64<<10))
	if p.requests != nil {
		p.requests.flush()
	}
	p.to.Close()
	_ = p.from.Close()
}

// signalName is what people call the signal.
func signalName(s syscall.Signal) string {
	names := map[syscall.Signal]string{
		syscall.SIGHUP: "HUP", syscall.SIGINT: "INT", syscall.SIGQUIT: "QUIT", syscall.SIGILL: "ILL", syscall.SIGABRT: "ABRT",
		syscall.SIGBUS: "BUS", syscall.SIGFPE: "FPE", syscall.SIGKILL: "KILL", syscall.SIGSEGV: "SEGV", syscall.SIGPIPE: "PIPE",
		syscall.SIGALRM: "ALRM", syscall.SIGTERM: "TERM", syscall.SIGXCPU: "XCPU", syscall.SIGXFSZ: "XFSZ",
	}
	if n, ok := names[s]; ok {
		return n
	}
	return fmt.Sprint(int(s))
}

// logEnd appends a line on how the run ended to the agent's log.
func logEnd(spec Spec, e Exit) {
	if spec.Log == "" {
		return
	}
	words := []string{string(e.End)}
	switch {
	case e.Signal != "":
		words = append(words, "by signal "+e.Signal)
	case e.Code >= 0:
		words = append(words, fmt.Sprintf("with code %d", e.Code))
	}
	if e.Reason != "" {
		words = append(words, "("+e.Reason+")")
	}
	if e.Trouble != "" {
		words = append(words, "; "+e.Trouble)
	}
	AppendLog(spec.Log, fmt.Sprintf("run %s ended: %s", spec.Name, strings.Join(words, " ")))
}

// AppendLog appends a line to a log, with the time before it. A log that is gone, or cannot be written, stays as it is.
func AppendLog(path, line string) {
	line = time.Now().UTC().Format(time.RFC3339) + " " + strings.ReplaceAll(line, "\n", " ") + "\n"
	_ = agentfile.Append(path, []byte(line))
}
