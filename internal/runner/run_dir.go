package runner

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"fleet/internal/place/agentfile"
	"fleet/internal/runner/driver"
	"fleet/internal/runner/question"
	"fleet/internal/runner/sandbox"
	"fleet/internal/runner/shim"
)

// settleUnclaimed reports whether a supervisor has claimed the run and has not recorded that it failed to start the program. If
// it returns false, no supervisor can claim the run later, and the run's files are removed.
func settleUnclaimed(run shim.Run) (claimed bool, err error) {
	if _, err := os.Stat(string(run)); isMissing(err) {
		return false, nil
	}
	void, err := run.Void()
	if errors.Is(err, agentfile.ErrReplaced) { // the run was claimed, and the agent has replaced the claim's file
		return true, nil
	}
	if isMissing(err) { // the agent was deleted meanwhile
		return false, nil
	}
	if err != nil {
		return false, HostError("cannot claim the run", err)
	}
	if !void {
		e, err := run.Exit()
		if err != nil && !errors.Is(err, agentfile.ErrReplaced) {
			return false, HostError("cannot read the run's end", err)
		}
		if e == nil || e.End != shim.NotStarted {
			return true, nil
		}
	}
	return false, archiveUnstarted(run)
}

// archiveUnstarted moves away the directory of a run that was never started. It removes all files but the claim, which
// a late supervisor may still check.
func archiveUnstarted(run shim.Run) error {
	dir, err := os.MkdirTemp(filepath.Dir(string(run)), voidPrefix+"*")
	if err == nil {
		err = os.Rename(string(run), filepath.Join(dir, "run"))
	}
	if err != nil {
		return HostError("cannot remove the record of a run that was never started", err)
	}
	return removeExcept(filepath.Join(dir, "run"), "claim")
}

// removeExcept removes all files of the directory except the files named in keep.
func removeExcept(dir string, keep ...string) error {
	entries, err := agentfile.ReadDir(dir)
	if err != nil {
		return HostError("cannot archive the run", err)
	}
	for _, e := range entries {
		if !slices.Contains(keep, e.Name()) {
			if err := sandbox.Remove(context.Background(), filepath.Join(dir, e.Name())); err != nil {
				return HostError("cannot archive the run", err)
			}
		}
	}
	return nil
}

// isActive reports whether the run has started and has not ended. A run that no supervisor has claimed cannot
// start later.
func isActive(run shim.Run) (bool, error) {
	if claimed, err := settleUnclaimed(run); err != nil || !claimed {
		return false, err
	}
	e, err := run.Settle()
	return e == nil, err
}

// createRun creates the directory of a run with the files. Each value of jsonFiles becomes a JSON file with the key as its name.
func (host *Host) createRun(h Home, run shim.Run, jsonFiles map[string]any, files []driver.File) error {
	for name, data := range shim.SpareFiles() {
		files = append(files, driver.File{Name: name, Data: data})
	}
	for name, v := range jsonFiles {
		data, err := json.Marshal(v)
		if err != nil {
			return err
		}
		files = append(files, driver.File{Name: name, Data: string(data)})
	}
	if err := h.sweep(run); err != nil {
		return HostError("cannot clean up the directory of runs", err)
	}
	if err := h.writeRun(run, files); err != nil {
		return HostError("cannot create the run's directory", err)
	}
	return nil
}

// writeRun creates the run's directory with the files atomically.
func (h Home) writeRun(run shim.Run, files []driver.File) error {
	tmp, err := os.MkdirTemp(h.path("runs"), newPrefix+"*")
	if err != nil {
		return err
	}
	for _, dir := range []string{shim.FilesDir, question.AsksDir} {
		if err := os.Mkdir(filepath.Join(tmp, dir), 0o700); err != nil {
			return err
		}
	}
	for _, f := range files {
		mode := os.FileMode(0o600)
		if f.Executable {
			mode = 0o700
		}
		path := filepath.Join(tmp, f.Name)
		err := os.MkdirAll(filepath.Dir(path), 0o700)
		if err == nil {
			err = os.WriteFile(path, []byte(f.Data), mode)
		}
		if err != nil {
			return errors.Join(err, os.RemoveAll(tmp))
		}
	}
	// The file "active" is written before the run exists, because it does no harm if it names a missing run.
	if err := shim.WriteFile(h.path("active"), []byte(filepath.Base(string(run)))); err != nil {
		return err
	}
	return os.Rename(tmp, string(run))
}
