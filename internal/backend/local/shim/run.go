package shim

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"fleet/internal/backend/agentfile"
	"fleet/internal/backend/local/process"
)

// Run is the directory of a run, wherever the run is between prepared and ended.
type Run string

// Claim says who supervises a run.
type Claim struct {
	Void bool       `json:"void,omitempty"` // nobody, for ever
	Shim process.ID `json:"shim"`
}

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
// sees to it: it kills what is left of it and writes the end that the shim could not.
func (r Run) Settle() (*Exit, error) {
	if e, err := r.Exit(); e != nil || err != nil {
		return e, err
	}
	c, err := r.Claim()
	if err != nil {
		return nil, err
	}
	if c == nil || c.Void {
		return nil, fmt.Errorf("run %s was never started", filepath.Base(string(r)))
	}
	if c.Shim.Alive() {
		return nil, nil
	}
	// The shim's last act is to write the end; it may have done that since the first look.
	if e, err := r.Exit(); e != nil || err != nil {
		return e, err
	}
	return r.bury(c)
}

// bury ends what is left of a run whose shim is gone.
func (r Run) bury(c *Claim) (*Exit, error) {
	spec, err := r.Spec()
	if err != nil {
		return nil, err
	}
	e := Exit{End: Lost, Code: -1, Ended: time.Now().UTC(), Reason: "the process that supervised the run was killed; what it ran was ended too"}
	if self, err := process.Self(); err == nil && self.Boot != c.Shim.Boot {
		e.Reason = "the machine was restarted during the run"
	}
	if child, err := readOptional[process.ID](r.Path("child")); err == nil && child != nil {
		killGroup(*child)
	}
	if n := process.KillMarked(spec.Mark); n > 0 {
		e.Trouble = fmt.Sprintf("%d processes could not be killed", n)
	}
	r.forget(spec.Secrets)
	_ = os.Remove(r.Path("control"))
	if info, err := os.Stat(r.Path("claim")); err == nil {
		e.Started = info.ModTime().UTC()
	}
	if err := writeOnce(r.Path("exit.json"), e); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
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
	if err := os.Rename(tmp, path); err != nil {
		_ = os.Remove(tmp)
		return err
	}
	return nil
}

// writeOnce writes the file as a whole, or returns os.ErrExist when there is one already.
func writeOnce(path string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	tmp, err := writeTemp(path, b, 0o600)
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
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%s: %w", path, err)
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
