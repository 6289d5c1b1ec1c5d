package shim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"fleet/internal/place/agentfile"
	"fleet/internal/runner/process"
	"fleet/internal/runner/sandbox"
)

// Run is the path of a run's directory, in any state of the run.
type Run string

// Claim records who supervises a run.
type Claim struct {
	Void bool       `json:"void,omitempty"` // no shim supervises the run, and none ever will
	Shim process.ID `json:"shim"`
	// PIDNamespace means that the shim is the init process of the run's pid namespace, so no process of the run survives it.
	PIDNamespace bool `json:"separate,omitempty"`
}

// FilesDir is the directory in a run's directory to which the program writes its results.
const FilesDir = "files"

// Mark returns the text by which process.KillMarked recognises the processes of the run. Each of them has the variable in its
// environment, with a path in the run's directory.
func Mark(r Run) string { return "FLEET_RUN_DIR=" + string(r) + "/" }

// Path returns the path of a file of the run.
func (r Run) Path(name string) string { return filepath.Join(string(r), name) }

// Spec returns the specification of the run.
func (r Run) Spec() (Spec, error) {
	var s Spec
	err := readJSON(r.Path("run.json"), &s)
	return s, err
}

// Claim returns who supervises the run, or nil if nobody has claimed it.
func (r Run) Claim() (*Claim, error) { return readOptional[Claim](r.Path("claim")) }

// Exit returns how the run ended, or nil if no end is recorded.
func (r Run) Exit() (*Exit, error) { return readOptional[Exit](r.Path("exit.json")) }

// Void makes sure that a run that no shim has claimed is never started. It returns false if a shim has claimed it.
func (r Run) Void() (bool, error) {
	err := writeOnce(r.Path("claim"), Claim{Void: true})
	if errors.Is(err, os.ErrExist) {
		c, err := r.Claim()
		return c != nil && c.Void, err
	}
	return err == nil, err
}

// Settle returns how the run ended, or nil while the run is active. If the run's shim was killed, Settle kills the
// remaining processes and records the end. It does the same for a run whose files were replaced, because the supervisor
// of such a run is unknown. Settle returns an error if the run was never started.
func (r Run) Settle() (*Exit, error) {
	e, c, err := r.state()
	switch {
	case errors.Is(err, agentfile.ErrReplaced):
		return r.endReplaced(c, err)
	case e != nil || err != nil:
		return e, err
	case c.Shim.Alive():
		return nil, nil
	}
	// The shim writes the end last, and may have done so since the first check.
	if e, err := r.Exit(); e != nil || err != nil {
		return e, err
	}
	if finishing, err := r.letChildFinish(c); finishing || err != nil {
		return nil, err
	}
	return r.recordLost(c, Lost, false, "the process that supervised the run was killed")
}

// lossRecord records when it was noticed that the shim was killed.
type lossRecord struct {
	At time.Time `json:"at"`
}

// letChildFinish lets the child of a killed shim complete its active request to the model, which is paid for. It reports
// whether the child still runs. The first call sends SIGTERM to the child, because not every system does that when the shim
// is killed. The child then has Spec.Grace to end.
func (r Run) letChildFinish(c *Claim) (finishing bool, err error) {
	spec, err := r.Spec()
	if err != nil || !spec.EndsOnSIGTERM || c.PIDNamespace || machineRestarted(c.Shim) {
		return false, nil //nolint:nilerr // the files were replaced, so the run ends at once
	}
	child, err := readOptional[process.ID](r.Path("child"))
	if err != nil || child == nil || !child.Alive() {
		return false, nil //nolint:nilerr // as above
	}
	if err := writeOnce(r.Path("lost"), lossRecord{time.Now()}); err == nil {
		_ = child.Signal(syscall.SIGTERM)
		return true, nil
	} else if !errors.Is(err, os.ErrExist) {
		return false, nil // the disk is full
	}
	l, err := readOptional[lossRecord](r.Path("lost"))
	return err == nil && l != nil && time.Since(l.At) < spec.Grace, nil
}

// state returns how the run ended. If the run has not ended, state returns who supervises it. If the run was never
// started, state returns an error.
func (r Run) state() (*Exit, *Claim, error) {
	e, err := r.Exit()
	if e != nil {
		return e, nil, err
	}
	c, cerr := r.Claim()
	if err = errors.Join(err, cerr); err == nil && (c == nil || c.Void) {
		err = fmt.Errorf("run %s was never started", filepath.Base(string(r)))
	}
	return nil, c, err
}

// Kill ends a run whose shim does not answer. It kills the shim and the processes of the run that it can find, and records the end.
// It does not change a run that has ended.
func (r Run) Kill(end End) error {
	e, c, err := r.state()
	switch {
	case errors.Is(err, agentfile.ErrReplaced):
		_, err = r.endReplaced(c, err)
		return err
	case e != nil || err != nil:
		return err
	}
	_, err = r.recordLost(c, end, killTree(c.Shim), "the process that supervised the run did not answer and was killed")
	return err
}

// endReplaced ends a run whose files were replaced.
func (r Run) endReplaced(c *Claim, cause error) (*Exit, error) {
	allKilled := c != nil && !c.Void && killTree(c.Shim)
	if _, err := r.Exit(); errors.Is(err, agentfile.ErrReplaced) {
		if err := sandbox.Remove(context.Background(), r.Path("exit.json")); err != nil {
			return nil, err
		}
	}
	return r.recordLost(c, Lost, allKilled, "the run was ended, because its files were replaced: "+cause.Error())
}

// killTree kills the shim and all its descendants. It returns true only if certainly none of them is left. If the shim has ended, or
// if shims cannot adopt orphans on this system, killTree kills nothing and returns false.
func killTree(shim process.ID) bool {
	if !process.AdoptsOrphans || !shim.Alive() {
		return false
	}
	// A suspended shim cannot act any more, but it still adopts the orphans of killed processes.
	if err := shim.Signal(syscall.SIGSTOP); err != nil {
		return false
	}
	allKilled := false
	for start := time.Now(); !allKilled && time.Since(start) < killTimeLimit; {
		n, err := process.KillDescendants(shim.PID)
		if allKilled = n == 0 && err == nil; !allKilled {
			time.Sleep(killInterval)
		}
	}
	return shim.Signal(syscall.SIGKILL) == nil && allKilled
}

// machineRestarted reports whether the machine was restarted since the process ran.
func machineRestarted(id process.ID) bool {
	self, err := process.Self()
	return err == nil && self.Boot != id.Boot
}

// recordLost records the end of a run whose shim has ended, and kills the remaining processes of the run. allKilled means
// that all processes were already killed.
func (r Run) recordLost(c *Claim, end End, allKilled bool, why string) (*Exit, error) {
	spec, err := r.Spec()
	if err != nil && !errors.Is(err, agentfile.ErrReplaced) {
		return nil, err
	}
	e := Exit{End: end, Code: -1, EndedAt: time.Now().UTC(), Reason: why}
	switch {
	case c != nil && machineRestarted(c.Shim):
		e.Reason = "the machine was restarted during the run"
	case c != nil && c.PIDNamespace:
		e.Reason += "; all processes of the run were killed too"
	default:
		if child, err := readOptional[process.ID](r.Path("child")); err == nil && child != nil {
			killGroup(*child)
		}
		switch n := process.KillMarked(cmp.Or(spec.Mark, Mark(r))); {
		case n > 0:
			e.Problem = fmt.Sprintf("%d processes could not be killed", n)
		case allKilled:
			e.Reason += "; all processes of the run were killed too"
		default:
			e.Reason += "; the processes of the run that were found were killed too"
		}
	}
	r.removeSecrets(spec.SecretFiles)
	_ = os.Remove(r.Path("control"))
	if info, err := os.Lstat(r.Path("claim")); err == nil {
		e.StartedAt = info.ModTime().UTC()
	}
	if err := writeOnce(r.Path("exit.json"), e); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	r.removeSpares()
	logEnd(spec, e)
	return r.Exit()
}

// killGroup kills the process group that the process leads, if the pid still belongs to the process. A zombie keeps its
// pid, so its group cannot belong to another process.
func killGroup(leader process.ID) {
	if current, err := process.Of(leader.PID); err == nil && current == leader {
		_ = syscall.Kill(-leader.PID, syscall.SIGKILL)
	}
}

func (r Run) removeSecrets(names []string) {
	for _, n := range names {
		_ = os.Remove(r.Path(n))
	}
}
