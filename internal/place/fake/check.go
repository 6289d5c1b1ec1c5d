package fake

import (
	"context"
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

// Check runs the command, see runCommand. "wait GATE" waits for the gate, and "hang" never ends. If the command ends with "fix: LINE" and
// fails, it also writes "fix: LINE".
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
	command, repair, _ := strings.Cut(c.Command, fixPrefix)
	ctx, cancel := context.WithTimeout(context.Background(), c.Timeout)
	defer cancel()
	result := runCommand(command, func(path string) bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return r.workspace.files[path]
	}, func(verb, gate string) fleet.CheckStatus {
		var open <-chan struct{} // nil for hang, so that it never ends
		if verb == "wait" {
			p.arrive(gate)
			open = p.gate(gate).open
		}
		select {
		case <-open:
			return fleet.CheckPassed
		case <-ctx.Done():
			return fleet.CheckTimedOut
		case <-k.stop:
			return fleet.CheckStopped
		}
	})
	if repair != "" && result.Status == fleet.CheckFailed {
		result.Output += fixPrefix + strings.TrimSpace(repair) + "\n"
	}
	switch result.Status {
	case fleet.CheckTimedOut:
		result.Reason = "it ran longer than its limit of " + c.Timeout.String()
	case fleet.CheckStopped:
		result.Reason = "it was asked to stop"
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	result.Command, result.StartedAt, result.EndedAt = c.Command, k.result.StartedAt, p.config.Now()
	k.result = result
	close(k.done)
}

// runCommand executes the command of a check, and returns the status, the output and the exit code. A command is a list of
// instructions, separated by semicolons. "echo TEXT" writes the text, "has PATH" fails unless there is the file, "hasnot PATH" fails if
// there is the file, "both PATH OTHER" fails if there are both files and there is no file c.txt, and "exit CODE" ends the command. has
// reports whether there is a file. pause executes "wait" and "hang": it returns CheckPassed if the command goes on, else its status.
func runCommand(command string, has func(path string) bool, pause func(verb, text string) fleet.CheckStatus) (r fleet.CheckResult) {
	code := 0
	r.Status = fleet.CheckPassed
	for step := range strings.SplitSeq(command, ";") {
		switch verb, text, _ := strings.Cut(strings.TrimSpace(step), " "); verb {
		case "echo":
			r.Output += text + "\n"
		case "has":
			if !has(text) {
				code, r.Output = 1, r.Output+"there is no "+text+"\n"
			}
		case "hasnot":
			if has(text) {
				code = 1
			}
		case "both":
			if one, other, _ := strings.Cut(text, " "); has(one) && has(other) && !has("c.txt") {
				code = 1
			}
		case "exit":
			code, _ = strconv.Atoi(text)
		case "wait", "hang":
			r.Status = pause(verb, text)
		}
		if code != 0 {
			r.Status = fleet.CheckFailed
		}
		if r.Status != fleet.CheckPassed {
			break
		}
	}
	if r.Status == fleet.CheckPassed || r.Status == fleet.CheckFailed {
		r.ExitCode = &code
	}
	return r
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
