package shim

import (
	"cmp"
	"fmt"
	"os"
	"syscall"
	"time"

	"fleet/internal/runner/process"
)

const (
	// leftoverGrace is the time between SIGTERM and SIGKILL for processes that the child leaves behind.
	leftoverGrace = time.Second
	// killInterval is the interval for repeating SIGKILL, because new processes may have started.
	killInterval = 10 * time.Millisecond
	// killTimeLimit is how long SIGKILL is repeated. Processes that are left after that time hang in the kernel.
	killTimeLimit = 10 * time.Second
	// turnTimeout is how long an interrupt waits until a child that talks to a model has ended its turn.
	turnTimeout = time.Second
)

// supervisor is the state of a shim and its child. Only the goroutine of its loop sends signals and waits for
// processes, so that a pid cannot belong to another process.
type supervisor struct {
	run  Run
	spec Spec
	pid  int

	pidNamespace bool // the shim is the init process of a pid namespace with all processes of the run
	startedAt    time.Time
	control      *control
	pumps        []*pump
	problem      string

	modelRequests *modelRequests // nil if the output has no events about requests to the model

	end         End
	reason      string
	exited      bool // the child has ended and was waited for
	status      syscall.WaitStatus
	hasChildren bool // the shim has children that have not ended: the child, or orphans that the shim adopted
	termSent    bool // SIGTERM was sent to the processes that the child left behind
	killing     bool // SIGKILL is sent repeatedly

	killTimer    <-chan time.Time  // when the processes are killed
	lingerUntil  time.Time         // until when the loop waits for an active request to the model
	lingerTimer  <-chan time.Time  // at lingerUntil
	requestEnded <-chan struct{}   // the event that ends the wait before lingerUntil
	unconfirmed  []chan<- struct{} // interrupts whose clients wait until the child begins no more work
	confirmTimer <-chan time.Time  // when these clients have waited long enough
}

// loop runs until the child, its descendants and its output have ended, and returns how the run ended. sigchld gets a
// value when a child has ended, and sigterm when the shim must end.
func (s *supervisor) loop(sigchld, sigterm <-chan os.Signal) Exit {
	defer s.confirmInterrupts()
	var deadline, killAgain, giveUp <-chan time.Time
	var turnEnded, disconnected <-chan struct{}
	if s.modelRequests != nil {
		turnEnded = s.modelRequests.turnEnded
	}
	if s.control.terminal != nil {
		disconnected = s.control.terminal.disconnected
	}
	if s.spec.Timeout > 0 {
		deadline = time.After(s.spec.Timeout)
	}
	for {
		s.reap()
		if s.exited {
			s.confirmInterrupts()
			if !s.endLeftovers() {
				return s.finish()
			}
		}
		if s.killing {
			s.killAll()
			killAgain = time.After(killInterval)
			if giveUp == nil {
				giveUp = time.After(killTimeLimit)
			}
		}
		select {
		case <-sigchld:
		case <-sigterm:
			if s.end == Exited {
				s.stop(Lost, "the process that supervised the run was told to end, for example by a shutdown of its machine, and has ended the run")
			}
		case <-disconnected:
			disconnected = nil
			_ = s.control.terminal.pty.Close() // the kernel sends SIGHUP to the program in the foreground
			s.stop(Interrupted, "nobody uses its terminal any more")
		case <-deadline:
			s.stop(Deadline, "")
		case req := <-s.control.interrupts:
			s.handleInterrupt(req)
		case <-turnEnded:
			s.confirmInterrupts()
		case <-s.confirmTimer:
			s.confirmInterrupts()
		case <-s.requestEnded:
			if !s.modelRequests.isBusy() {
				s.terminate()
			}
		case <-s.lingerTimer:
			s.terminate()
		case <-s.killTimer:
			s.killing = true
		case <-killAgain:
		case <-giveUp:
			s.problem = "processes of the run could not be killed: they hang in the kernel"
			return s.finish()
		}
	}
}

// handleInterrupt asks the child to end, or first waits for its active request to the model.
func (s *supervisor) handleInterrupt(req controlRequest) {
	s.unconfirmed = append(s.unconfirmed, req.confirmed)
	s.killing = s.killing || req.Kill
	if s.exited {
		s.confirmInterrupts()
		return
	}
	s.setEnd(Interrupted, req.Reason)
	switch {
	case req.Kill || s.modelRequests == nil:
		s.terminate()
	case s.modelRequests.isBusy():
		linger := cmp.Or(req.Linger, s.spec.Grace*3/4) // the rest of the grace period is for SIGTERM
		if until := time.Now().Add(linger); s.requestEnded == nil || until.Before(s.lingerUntil) {
			s.requestEnded, s.lingerUntil, s.lingerTimer = s.modelRequests.idle, until, time.After(linger)
		}
	default:
		s.terminate()
		s.confirmTimer = time.After(turnTimeout)
		return
	}
	s.confirmInterrupts()
}

// confirmInterrupts answers the clients of interrupts.
func (s *supervisor) confirmInterrupts() {
	for _, c := range s.unconfirmed {
		close(c)
	}
	s.unconfirmed = nil
}

// stop asks the child to end, and kills it after the grace period.
func (s *supervisor) stop(end End, reason string) {
	if !s.exited {
		s.setEnd(end, reason)
		s.terminate()
		s.killTimer = time.After(s.spec.Grace)
	}
}

// setEnd sets how the run ends. If the run was asked to end before, the first end and reason stay.
func (s *supervisor) setEnd(end End, reason string) {
	if s.end == Exited {
		s.end, s.reason = end, reason
	}
}

// terminate sends SIGTERM to the child's process group. It sends nothing after the child was waited for, because then the group
// could belong to another process.
func (s *supervisor) terminate() {
	if s.exited {
		return
	}
	_ = syscall.Kill(-s.pid, syscall.SIGTERM)
	if s.control.terminal != nil {
		_ = syscall.Kill(-s.pid, syscall.SIGHUP) // a shell on a terminal ignores SIGTERM, and passes SIGHUP on to its jobs
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
			s.hasChildren = false
			return
		case pid == 0:
			s.hasChildren = true
			return
		case pid == s.pid:
			s.exited, s.status = true, status
		}
	}
}

// endLeftovers asks the processes that the child left behind to end. It returns false if there are none.
func (s *supervisor) endLeftovers() bool {
	leftovers := s.leftovers()
	if !s.hasChildren && len(leftovers) == 0 {
		return false
	}
	if !s.termSent {
		s.termSent = true
		for _, e := range leftovers {
			_ = e.Signal(syscall.SIGTERM)
		}
		s.killTimer = time.After(leftoverGrace)
	}
	return true
}

// leftovers returns the descendants of the shim. If shims cannot adopt orphans on this system and the child has ended, it returns the
// members of the child's process group. After the end of the child, these are the processes that it left behind.
func (s *supervisor) leftovers() []process.Entry {
	if s.hasChildren {
		found, err := process.Descendants(os.Getpid())
		if err != nil {
			s.problem = err.Error()
		}
		return found
	}
	if process.AdoptsOrphans {
		return nil // a shim that adopts orphans and has no children has no descendants
	}
	found, _ := process.Members(s.pid)
	return found
}

// killAll sends SIGKILL to the child and all its current descendants, once.
func (s *supervisor) killAll() {
	if s.pidNamespace { // one call, which a program that keeps forking cannot escape
		_ = syscall.Kill(-1, syscall.SIGKILL)
		return
	}
	if !s.exited {
		_ = syscall.Kill(-s.pid, syscall.SIGKILL)
	}
	process.KillGroups(s.leftovers())
}

// finish stops reading the output, and returns how the run ended. It does not wait for unrelated processes to which the
// child may have passed the output.
func (s *supervisor) finish() Exit {
	close(s.control.done)
	e := Exit{End: s.end, Code: -1, Reason: s.reason, StartedAt: s.startedAt, EndedAt: time.Now().UTC()}
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

// signalName returns the name of the signal without SIG, or the number of a signal that is not in its list.
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
