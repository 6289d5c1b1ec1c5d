package runner

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/place/agentfile"
	"fleet/internal/runner/driver"
	"fleet/internal/runner/shim"
)

// maxStoredCheckOutput limits how much of a check's output is stored, in bytes.
const maxStoredCheckOutput = 1 << 20

var checkIDPattern = regexp.MustCompile(`^[a-z0-9]{1,20}$`)

// checkSeparator is part of the name of a check's run: the name of the task's run, checkSeparator, and the id of the check.
const checkSeparator = ".check-"

// maxCheckAttempts is how often a check is started, in total. Another attempt follows a failure of the machine.
const maxCheckAttempts = 2

// checkRun returns the run of an attempt at a check. The first attempt is 1.
func (h Home) checkRun(r fleet.Run, id string, attempt int) shim.Run {
	name := FileName(r.TaskID) + checkSeparator + id
	if attempt > 1 {
		name += ".again" // outside checkIDPattern, so it is not the name of another check
	}
	return shim.Run(h.path("runs", name))
}

// Check implements fleet.Runner. A check is a run of its own: a supervisor claims it and watches over it, and it survives the
// server. If the machine fails during the check, Check starts it once more.
func (a Agent) Check(ctx context.Context, r fleet.Run, c fleet.Check) (fleet.CheckResult, error) {
	if err := ctx.Err(); err != nil {
		return fleet.CheckResult{}, err
	}
	if err := a.requireRun(r.TaskID); err != nil {
		return fleet.CheckResult{}, err
	}
	return a.runCheck(ctx, r, c)
}

// treeTaskID replaces the task's id in the run of a check that belongs to no task.
const treeTaskID = "tree"

// CheckTree works like Check, for a check that belongs to no task. Workspace.Work is called each time before the command starts.
func (a Agent) CheckTree(ctx context.Context, c fleet.Check) (fleet.CheckResult, error) {
	if err := ctx.Err(); err != nil {
		return fleet.CheckResult{}, err
	}
	return a.runCheck(ctx, fleet.Run{TaskID: treeTaskID}, c)
}

// CheckTreeEnded reports whether all checks of CheckTree have ended, and when the last one ended. at is zero if a check is
// running or there was none.
func (h Home) CheckTreeEnded() (ended bool, at time.Time, err error) {
	runs, err := h.checkRuns(fleet.Run{TaskID: treeTaskID})
	for _, run := range runs {
		claimed, cerr := settleUnclaimed(run)
		if err = errors.Join(err, cerr); err != nil || !claimed {
			continue
		}
		e, serr := run.Settle()
		if err = errors.Join(err, serr); e == nil {
			return false, time.Time{}, err
		}
		if e.EndedAt.After(at) {
			at = e.EndedAt
		}
	}
	return true, at, err
}

// runCheck executes the check, or returns the result of an earlier execution.
func (a Agent) runCheck(ctx context.Context, r fleet.Run, c fleet.Check) (fleet.CheckResult, error) {
	if !checkIDPattern.MatchString(c.ID) || c.Timeout <= 0 {
		return fleet.CheckResult{}, fleet.InvalidField("check", "a check needs a timeout and an id of 1 to 20 lower-case letters and digits")
	}
	for attempt := 1; ; attempt++ {
		run := a.home.checkRun(r, c.ID, attempt)
		claimed, err := settleUnclaimed(run)
		if err != nil {
			return fleet.CheckResult{}, err
		}
		if !claimed {
			if err := a.startCheck(ctx, r, c, run); err != nil {
				return fleet.CheckResult{}, err
			}
		}
		exit, err := waitCheck(ctx, run)
		if err != nil {
			return fleet.CheckResult{}, err
		}
		if exit.End != shim.Lost || attempt == maxCheckAttempts {
			return checkResult(run, c, exit)
		}
	}
}

// startCheck starts the check's command as a program of the agent.
func (a Agent) startCheck(ctx context.Context, r fleet.Run, c fleet.Check, run shim.Run) error {
	if err := a.ws.Ready(); err != nil {
		return err
	}
	if err := a.requireFree(filepath.Base(string(run))); err != nil {
		return err
	}
	work, err := a.ws.Work(r)
	if err != nil {
		return err
	}
	env := work.environ(map[string]string{
		"FLEET_RUN_DIR": run.Path(shim.FilesDir), "FLEET_TASK_ID": r.TaskID, "FLEET_AGENT": work.Job.Agent,
		"FLEET_PROJECT": work.Job.Project, "FLEET_ROLE": work.Job.Role.Name, "FLEET_CHECK": c.ID,
	})
	spec := shim.Spec{
		Argv: []string{"sh", "-c", c.Command}, Dir: work.Dir, Timeout: c.Timeout, Grace: a.host.config.StopGrace, MaxOutput: maxStoredCheckOutput,
		Log: a.home.path("log"), Mark: shim.Mark(run), Name: filepath.Base(string(run)),
	}
	if spec.Program, err = FindProgram("sh", env, work.Dir); err != nil {
		return err
	}
	if work.Sandbox != nil {
		spec.Sandbox = confinedPolicy(*work.Sandbox, run, spec.Program, "", nil, env)
	}
	if err := a.host.createRun(a.home, run, map[string]any{specFile: spec}, nil); err != nil {
		return err
	}
	return a.host.launch(ctx, a.name, a.home, run, env)
}

// waitCheck waits until the check has ended. If the check is overdue and its supervisor does not respond, for example because it is
// suspended, waitCheck kills the check. If the agent was deleted meanwhile, the check counts as interrupted.
func waitCheck(ctx context.Context, run shim.Run) (*shim.Exit, error) {
	for {
		spec, err := run.Spec()
		if err != nil && !isMissing(err) && !errors.Is(err, agentfile.ErrReplaced) {
			return nil, HostError("cannot read the check", err)
		}
		waitCtx, cancel := context.WithTimeout(ctx, max(spec.Timeout+spec.Grace+overdueMargin-timeSinceClaim(run), overdueMargin))
		exit, err := run.Wait(waitCtx)
		timedOut := waitCtx.Err() != nil
		cancel()
		switch {
		case exit != nil && err == nil:
			return exit, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil && !timedOut:
			if _, err := os.Stat(string(run)); isMissing(err) {
				return exitOfDeleted(), nil
			}
			return nil, HostError("cannot read the check's end", err)
		case !run.Responds(ctx) && ctx.Err() == nil: // otherwise the supervisor may not have had the time to answer
			if err := run.Kill(shim.Deadline); err != nil {
				return nil, HostError("cannot kill the check", err)
			}
		}
	}
}

// timeSinceClaim returns the time since the run was claimed, or 0 if the claim cannot be read.
func timeSinceClaim(run shim.Run) time.Duration {
	info, err := os.Lstat(run.Path("claim"))
	if err != nil {
		return 0
	}
	return time.Since(info.ModTime())
}

// checkResult returns the result of an ended check.
func checkResult(run shim.Run, c fleet.Check, exit *shim.Exit) (fleet.CheckResult, error) {
	tail, err := run.Tail("output", fleet.MaxCheckOutput+1)
	if err != nil {
		return fleet.CheckResult{}, HostError("cannot read the check's output", err)
	}
	cut := len(tail) > fleet.MaxCheckOutput
	if cut {
		tail = tail[len(tail)-fleet.MaxCheckOutput:]
	}
	res := fleet.CheckResult{
		Command: c.Command, Status: fleet.CheckFailed, Output: strings.ToValidUTF8(driver.CleanText(tail), ""), Truncated: cut,
		StartedAt: exit.StartedAt, EndedAt: exit.EndedAt, Reason: exit.Reason,
	}
	switch {
	case exit.End == shim.Deadline:
		res.Status, res.Reason = fleet.CheckTimedOut, "it ran longer than its limit of "+c.Timeout.String()
	case exit.End == shim.Interrupted:
		res.Status = fleet.CheckStopped
	case exit.End != shim.Exited:
	case exit.Signal != "":
		res.Reason = "the signal " + exit.Signal + " ended it"
	default:
		res.ExitCode = &exit.Code
		if exit.Code == 0 {
			res.Status = fleet.CheckPassed
		}
	}
	return res, nil
}

// checkRuns returns the runs of all checks of the task.
func (h Home) checkRuns(r fleet.Run) ([]shim.Run, error) {
	all, err := h.runDirs()
	if err != nil {
		return nil, HostError("cannot read the directory of runs", err)
	}
	return slices.DeleteFunc(all, func(run shim.Run) bool {
		return !strings.HasPrefix(filepath.Base(string(run)), FileName(r.TaskID)+checkSeparator)
	}), nil
}
