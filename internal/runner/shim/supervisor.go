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
	// leftoverGrace is the time between SIGTERM and SIGKILL for processes that the child leaves behind.
	leftoverGrace = time.Second
	// killInterval is the interval for repeating SIGKILL, because new processes may have started.
	killInterval = 10 * time.Millisecond
	// killTimeLimit is how long SIGKILL is repeated. Processes that are left after that time hang in the kernel.
	killTimeLimit = 10 * time.Second
	// settleTimeout is how long an interrupt waits until a child that talks to a model has ended its turn.
	settleTimeout = time.Second
)

// supervisor is the state of a shim and its child. Only the goroutine of its loop sends signals and waits for
// processes, so that a pid cannot belong to another process.
type supervisor struct {
	run  Run
	spec Spec
	pid  int

	separate bool // the shim is the init process of a pid namespace with all processes of the run
	started  time.Time
	control  *control
	pumps    []*pump
	problem  string

	modelRequests *modelRequests // nil if the output has no events about requests to the model

	end      End
	reason   string
	exited   bool // the child has ended and was waited for
	status   syscall.WaitStatus
	orphans  bool // the shim has other children
	termSent bool // SIGTERM was sent to the processes that the child left behind
	killing  bool

	settling []chan<- struct{} // interrupts whose clients wait until the child begins no more work
}

// loop runs until the child, its descendants and its output have ended, and returns how the run ended. died gets a
// value when a child has died, and sigterm when the shim must end.
func (s *supervisor) loop(died, sigterm <-chan os.Signal) Exit {
	s.end = Exited
	var deadline, kill, again, hopeless, impatient, unsettled <-chan time.Time
	var quiet, result, hangup <-chan struct{}
	if s.modelRequests != nil {
		result = s.modelRequests.result
	}
	if s.control.terminal != nil {
		hangup = s.control.terminal.hangup
	}
	defer s.settle()
	var patience time.Time // until when the loop waits for an active request
	if s.spec.Timeout > 0 {
		deadline = time.After(s.spec.Timeout)
	}
	for {
		s.reap()
		if s.exited {
			s.settle()
			leftovers := s.leftovers()
			if !s.orphans && len(leftovers) == 0 {
				break
			}
			if !s.termSent {
				s.termSent = true
				signalAll(leftovers, syscall.SIGTERM)
				kill = time.After(leftoverGrace)
			}
		}
		if s.killing {
			s.killAll()
			again = time.After(killInterval)
			if hopeless == nil {
				hopeless = time.After(killTimeLimit)
			}
		}
		select {
		case <-died:
		case <-sigterm:
			if !s.exited && s.end == Exited {
				s.end, s.reason = Lost, "the process that supervised the run was told to end, for example by a shutdown of its machine, and has ended the run"
				s.terminate()
				kill = time.After(s.spec.Grace)
			}
		case <-hangup:
			hangup = nil
			_ = s.control.terminal.pty.Close() // the kernel sends SIGHUP to the program in the foreground
			if !s.exited {
				s.interrupt("nobody uses its terminal any more")
				kill = time.After(s.spec.Grace)
			}
		case <-deadline:
			if !s.exited { // the child may have been interrupted before, and may not have ended
				if s.end == Exited {
					s.end = Deadline
				}
				s.terminate()
				kill = time.After(s.spec.Grace)
			}
		case o := <-s.control.interrupts:
			s.settling = append(s.settling, o.settled)
			switch {
			case s.exited:
				s.settle()
			case !o.Kill && s.modelRequests != nil && s.modelRequests.isBusy():
				s.end, s.reason = s.endReason(o.Reason)
				linger := o.Linger
				if linger == 0 {
					linger = s.spec.Grace * 3 / 4 // the rest of the grace period is for SIGTERM
				}
				if until := time.Now().Add(linger); quiet == nil || until.Before(patience) {
					quiet, patience, impatient = s.modelRequests.quiet, until, time.After(linger)
				}
				s.settle()
			default:
				s.interrupt(o.Reason)
				if s.modelRequests == nil || o.Kill {
					s.settle()
				} else {
					unsettled = time.After(settleTimeout)
				}
			}
			s.killing = s.killing || o.Kill
		case <-result:
			s.settle()
		case <-unsettled:
			s.settle()
		case <-quiet:
			if !s.exited && !s.modelRequests.isBusy() {
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
			s.problem = "processes of the run could not be killed: they hang in the kernel"
			return s.finish()
		}
	}
	return s.finish()
}

// settle answers the clients of interrupts.
func (s *supervisor) settle() {
	for _, c := range s.settling {
		close(c)
	}
	s.settling = nil
}

// interrupt asks the child to end because of a request.
func (s *supervisor) interrupt(reason string) {
	s.end, s.reason = s.endReason(reason)
	s.terminate()
}

// endReason returns the end and the reason of a run that is interrupted now. If the run was asked to end before, the first
// end and reason stay.
func (s *supervisor) endReason(reason string) (End, string) {
	if s.end == Exited {
		return Interrupted, reason
	}
	return s.end, s.reason
}

// terminate sends SIGTERM to the child's process group. The shim has not waited for the child yet, so the group still
// belongs to the child.
func (s *supervisor) terminate() {
	_ = syscall.Kill(-s.pid, syscall.SIGTERM)
	if s.control.terminal != nil {
		_ = syscall.Kill(-s.pid, syscall.SIGHUP) // a shell on a terminal ignores SIGTERM, and passes this on to its jobs
	}
	_ = syscall.Kill(-s.pid, syscall.SIGCONT) // a suspended process would not handle SIGTERM
}

// reap waits for the children that have ended: the child, and orphans that the shim adopted.
func (s *supervisor) reap() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil: // ECHILD: no child is left, and therefore no descendant
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

// leftovers returns the processes that the child left behind.
func (s *supervisor) leftovers() []process.Entry {
	if s.orphans {
		found, err := process.Descendants(os.Getpid())
		if err != nil {
			s.problem = err.Error()
		}
		return found
	}
	if process.Adopts {
		return nil // a shim that adopts orphans and has no children has no descendants
	}
	found, _ := process.Members(s.pid)
	return found
}

// killAll sends SIGKILL to the child and all its current descendants, once.
func (s *supervisor) killAll() {
	if s.separate { // one call, which a program that keeps forking cannot escape
		_ = syscall.Kill(-1, syscall.SIGKILL)
		return
	}
	if !s.exited {
		_ = syscall.Kill(-s.pid, syscall.SIGKILL)
	}
	found := s.leftovers()
	groups := map[int]bool{}
	for _, e := range found {
		// Whole groups are killed, because killing processes one by one can lose against a program that keeps forking.
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

// finish stops reading the output, and returns how the run ended. It does not wait for unrelated processes to which the
// child may have passed the output.
func (s *supervisor) finish() Exit {
	close(s.control.done)
	e := Exit{End: s.end, Code: -1, Reason: s.reason, Started: s.started, Ended: time.Now().UTC()}
	if s.control.terminal != nil {
		s.control.terminal.close()
	}
	for _, p := range s.pumps {
		_ = p.from.SetReadDeadline(time.Now())
		<-p.done
		if p.to.err != nil {
			s.problem = "the output could not be kept: " + p.to.err.Error()
		}
	}
	e.Problem = s.problem
	switch {
	case s.exited && s.status.Exited():
		e.Code = s.status.ExitStatus()
	case s.exited && s.status.Signaled():
		e.Signal = signalName(s.status.Signal())
	}
	return e
}

// pump copies the child's output to files.
type pump struct {
	from          *os.File
	to            *output
	modelRequests *modelRequests // detects requests in the data; may be nil
	done          chan struct{}
}

func (p *pump) run() {
	defer close(p.done)
	var to io.Writer = p.to
	if p.modelRequests != nil {
		to = p.modelRequests
	}
	_ = process.Copy(to, p.from)
	if p.modelRequests != nil {
		p.modelRequests.flush()
	}
	p.to.Close()
}

// signalName returns the usual name of the signal.
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

// logEnd appends a line about the end of the run to the agent's log.
func logEnd(spec Spec, e Exit) {
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
	if e.Problem != "" {
		words = append(words, "; "+e.Problem)
	}
	spec.log("ended: " + strings.Join(words, " "))
}

// log appends a line about the run to the agent's log.
func (s Spec) log(what string) {
	if s.Log != "" {
		AppendLog(s.Log, "run "+s.Name+" "+what)
	}
}

// AppendLog appends a line with the time to a log. It ignores errors and does not create the log.
func AppendLog(path, line string) {
	line = time.Now().UTC().Format(time.RFC3339) + " " + strings.ReplaceAll(line, "\n", " ") + "\n"
	_ = agentfile.Append(path, []byte(line))
}
