package fake

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"fleet/internal/fleet"
)

// check is a check that has been started, and may have ended. The world's mutex guards it.
type check struct {
	result fleet.CheckResult
	stop   chan struct{} // closed to end the check
	done   chan struct{} // closed at the end
}

// Check runs the command. A command of the fake place is a list of instructions, separated by semicolons: "echo TEXT"
// writes the text, "has PATH" fails unless a run in the workspace has changed the file, "exit CODE" ends the command,
// "wait GATE" waits for the gate, and "hang" never ends. If the command ends with "fix: LINE" and fails, it also writes
// "fix: LINE".
func (r runner) Check(ctx context.Context, run fleet.Run, c fleet.Check) (res fleet.CheckResult, err error) {
	p := r.place
	err = p.callPort(ctx, Call{Method: Check, Agent: r.agent, TaskID: run.TaskID}, func() error {
		if !p.config.Traits.SupportsChecks {
			return fleet.Errorf(fleet.ReasonUnimplemented, "agent %q does not support checks", r.agent.Name)
		}
		k, err := p.startCheck(r.agent, run, c)
		if err != nil {
			return err
		}
		select {
		case <-k.done:
		case <-ctx.Done():
			return ctx.Err()
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		res = k.result
		return nil
	})
	return res, err
}

// startCheck starts the check and returns it. If the check was already started, startCheck only returns it.
func (p *Place) startCheck(a fleet.Agent, task fleet.Run, c fleet.Check) (*check, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, err := p.findRun(a, task)
	if err != nil {
		return nil, err
	}
	if k := r.checks[c.ID]; k != nil {
		return k, nil
	}
	w := r.workspace
	switch {
	case w.State != fleet.StateRunning:
		return nil, fleet.Errorf(fleet.ReasonAgentOffline, "the workspace of agent %q is %s", w.Name, w.State)
	case w.busy():
		return nil, fleet.Errorf(fleet.ReasonAgentBusy, "agent %q is busy", w.Name)
	}
	k := &check{stop: make(chan struct{}), done: make(chan struct{})}
	k.result = fleet.CheckResult{Command: c.Command, StartedAt: p.config.Now()}
	if r.checks == nil {
		r.checks = map[string]*check{}
	}
	r.checks[c.ID], w.checkedRun = k, r
	w.logf("check %s of run %s begins", c.ID, r.task.TaskID)
	p.goroutines.Go(func() { p.executeCheck(r, c, k) })
	return k, nil
}

// executeCheck executes the command of the check c until it ends, its time limit is reached or k is stopped, and sets the result
// of k.
func (p *Place) executeCheck(r *run, c fleet.Check, k *check) {
	var out strings.Builder
	command, repair, _ := strings.Cut(c.Command, fixPrefix)
	status, code := fleet.CheckPassed, 0
	late, cancel := context.WithTimeout(context.Background(), c.Timeout)
	defer cancel()
	for step := range strings.SplitSeq(command, ";") {
		verb, text, _ := strings.Cut(strings.TrimSpace(step), " ")
		var until <-chan struct{}
		switch verb {
		case "echo":
			fmt.Fprintln(&out, text)
		case "exit":
			code, _ = strconv.Atoi(text)
		case "has":
			if p.mu.Lock(); !r.workspace.files[text] {
				code = 1
				fmt.Fprintf(&out, "there is no %s\n", text)
			}
			p.mu.Unlock()
		case "wait":
			p.arrive(text)
			until = p.gate(text).open
		case "hang":
			until = make(chan struct{})
		}
		if until != nil {
			select {
			case <-until:
			case <-late.Done():
				status = fleet.CheckTimedOut
			case <-k.stop:
				status = fleet.CheckStopped
			}
		}
		if code != 0 {
			status = fleet.CheckFailed
		}
		if status != fleet.CheckPassed {
			break
		}
	}
	if repair != "" && status == fleet.CheckFailed {
		fmt.Fprintln(&out, fixPrefix+strings.TrimSpace(repair))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	k.result.Status, k.result.Output, k.result.EndedAt = status, out.String(), p.config.Now()
	switch status {
	case fleet.CheckTimedOut:
		k.result.Reason = "it ran longer than its limit of " + c.Timeout.String()
	case fleet.CheckStopped:
		k.result.Reason = "it was asked to stop"
	default:
		k.result.ExitCode = &code
	}
	close(k.done)
}

// hasActiveCheck reports whether a check of the run is active. The caller holds the world's mutex.
func (r *run) hasActiveCheck() bool {
	for _, k := range r.checks {
		if !isClosed(k.done) {
			return true
		}
	}
	return false
}

// stopChecks ends the checks of the run. The caller holds the world's mutex.
func (r *run) stopChecks() {
	for _, k := range r.checks {
		if !isClosed(k.stop) {
			close(k.stop)
		}
	}
}
