package shim

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"fleet/internal/place/agentfile"
	"fleet/internal/runner/process"
)

// Run is the directory of a run, wherever the run is between prepared and ended.
type Run string

// Claim says who supervises a run.
type Claim struct {
	Void bool       `json:"void,omitempty"` // nobody, for ever
	Shim process.ID `json:"shim"`
}

// FilesDir is the directory in a run's directory that belongs to the program: what it writes there, Fleet reads as its own.
const FilesDir = "files"

// Mark is what the environment of everything that the run starts begins a variable with: see process.KillMarked.
func Mark(r Run) string { return "FLEET_RUN_DIR=" + string(r) + "/" }

// Path is where the run keeps the file.
func (r Run) Path(name string) string { return filepath.Join(string(r), name) }

// Spec returns what is to be run.
func (r Run) Spec() (Spec, error) {
	var s Spec
	err := readJSON(r.Path("run.json"), &s)
	return s, err
}

// Claim returns who supervises the run; nil when nobody has claimed it.
func (r Run) Claim() (*Claim, error) { return readOptional[Claim](r.Path("claim")) }

// Exit returns how the run ended; nil when it has not.
func (r Run) Exit() (*Exit, error) { return readOptional[Exit](r.Path("exit.json")) }

// Void makes sure that a run which no shim has claimed is never started, and says whether it could: false means that
// a shim was first.
func (r Run) Void() (bool, error) {
	err := writeOnce(r.Path("claim"), Claim{Void: true})
	if errors.Is(err, os.ErrExist) {
		c, err := r.Claim()
		return c != nil && c.Void, err
	}
	return err == nil, err
}

// Settle returns how the run ended, or nil while it is under way. A run whose shim was killed has ended, and Settle
// sees to it: it kills what is left of it and writes the end that the shim could not. The same goes for a run whose files
// were replaced, since nobody can tell any more who supervises it.
func (r Run) Settle() (*Exit, error) {
	e, c, err := r.state()
	switch {
	case errors.Is(err, agentfile.ErrReplaced):
		return r.forfeit(c, err)
	case e != nil || err != nil:
		return e, err
	case c.Shim.Alive():
		return nil, nil
	}
	// The shim's last act is to write the end; it may have done that since the first look.
	if e, err := r.Exit(); e != nil || err != nil {
		return e, err
	}
	return r.bury(c, Lost, false, "the process that supervised the run was killed")
}

// state returns how the run ended, nil while it has not, and who supervises it.
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

// Kill ends a run whose shim does not answer: it kills all that the shim runs and the shim itself, and writes down the
// end. A run that has ended stays as it is.
func (r Run) Kill(end End) error {
	e, c, err := r.state()
	switch {
	case errors.Is(err, agentfile.ErrReplaced):
		_, err = r.forfeit(c, err)
		return err
	case e != nil || err != nil:
		return err
	}
	_, err = r.bury(c, end, killTree(c.Shim), "the process that supervised the run did not answer and was killed")
	return err
}

// forfeit ends a run whose files were replaced.
func (r Run) forfeit(c *Claim, cause error) (*Exit, error) {
	all := c != nil && !c.Void && killTree(c.Shim)
	if _, err := r.Exit(); errors.Is(err, agentfile.ErrReplaced) {
		if err := os.RemoveAll(r.Path("exit.json")); err != nil {
			return nil, err
		}
	}
	return r.bury(c, Lost, all, "the run was ended, because its files were replaced: "+cause.Error())
}

// killTree kills the shim and all that it runs, and says whether nothing is left of that.
func killTree(shim process.ID) bool {
	if !process.Adopts || !shim.Alive() {
		return false
	}
	// Suspended, it does nothing more, and is still the one that gets the orphans of what is killed.
	if err := shim.Signal(syscall.SIGSTOP); err != nil {
		return false
	}
	clean := false
	for begun := time.Now(); !clean && time.Since(begun) < giveUp; {
		n, err := process.KillDescendants(shim.PID)
		if clean = n == 0 && err == nil; !clean {
			time.Sleep(killAgain)
		}
	}
	return shim.Signal(killSignal) == nil && clean
}

// restarted reports whether the machine was restarted since the process ran.
func restarted(id process.ID) bool {
	self, err := process.Self()
	return err == nil && self.Boot != id.Boot
}

// bury writes down the end of a run whose shim is gone, and ends what can be found of it. all says that nothing of it is
// left.
func (r Run) bury(c *Claim, end End, all bool, why string) (*Exit, error) {
	spec, err := r.Spec()
	if err != nil && !errors.Is(err, agentfile.ErrReplaced) {
		return nil, err
	}
	e := Exit{End: end, Code: -1, Ended: time.Now().UTC(), Reason: why}
	if c != nil && restarted(c.Shim) {
		e.Reason = "the machine was restarted during the run"
	} else {
		if child, err := readOptional[process.ID](r.Path("child")); err == nil && child != nil {
			killGroup(*child)
		}
		switch n := process.KillMarked(cmp.Or(spec.Mark, Mark(r))); {
		case n > 0:
			e.Trouble = fmt.Sprintf("%d processes could not be killed", n)
		case all:
			e.Reason += "; what it ran was ended too"
		default:
			e.Reason += "; what was found of the processes it ran was ended"
		}
	}
	r.forget(spec.Secrets)
	_ = os.Remove(r.Path("control"))
	if info, err := os.Lstat(r.Path("claim")); err == nil {
		e.Started = info.ModTime().UTC()
	}
	if err := writeOnce(r.Path("exit.json"), e); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	r.release()
	logEnd(spec, e)
	return r.Exit()
}

// forget removes files with secrets.
func (r Run) forget(names []string) {
	for _, n := range names {
		_ = os.Remove(r.Path(n))
	}
}

// WriteFile writes the file as a whole or not at all.
func WriteFile(path string, data []byte, mode os.FileMode) error {
	tmp, err := writeTemp(path, data, mode)
	if err != nil {
		return err
	}
	err = os.Rename(tmp, path)
	if errors.Is(err, syscall.EISDIR) || errors.Is(err, os.ErrExist) { // a directory was put in its place
		err = errors.Join(os.RemoveAll(path), os.Rename(tmp, path))
	}
	if err != nil {
		_ = os.Remove(tmp)
	}
	return err
}

// writeOnce writes the file as a whole, or returns os.ErrExist when there is one already. On a full disk it uses a spare
// file of the run.
func writeOnce(path string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	tmp, err := writeTemp(path, b, 0o600)
	if isFull(err) {
		tmp, err = writeSpare(filepath.Dir(path), b)
	}
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(tmp) }()
	return os.Link(tmp, path)
}

func writeTemp(path string, data []byte, mode os.FileMode) (string, error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return "", err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err != nil {
		_ = os.Remove(f.Name())
		return "", err
	}
	return f.Name(), nil
}

// maxFile is the longest file that describes a run, in bytes.
const maxFile = 16 << 20

func readJSON(path string, v any) error {
	b, err := agentfile.Read(path, maxFile)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil { // it is written as a whole or not at all
		return fmt.Errorf("%s: %w: %w", path, agentfile.ErrReplaced, err)
	}
	return nil
}

func readOptional[T any](path string) (*T, error) {
	v := new(T)
	err := readJSON(path, v)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return v, nil
}
