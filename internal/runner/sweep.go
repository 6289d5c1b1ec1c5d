package runner

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"fleet/internal/place/agentfile"
	"fleet/internal/runner/sandbox"
	"fleet/internal/runner/shim"
)

const (
	newPrefix  = ".new-"  // of a run's directory that is not complete
	voidPrefix = ".void-" // of a directory with the claim of a run that was never started
	// voidRetention is how long the claim of a run that was never started is kept. By then, a late supervisor of the run would have
	// started.
	voidRetention = 24 * time.Hour
	// maxKeptRuns is the number of an agent's runs that keep their output. Older runs keep only the records of their start
	// and end, so that they are never started again.
	maxKeptRuns = 20
)

// runDirs returns the agent's runs and checks, sorted by name, also those that were not created completely.
func (h Home) runDirs() (all []shim.Run, err error) {
	entries, err := agentfile.ReadDir(h.path("runs"))
	if isMissing(err) || errors.Is(err, agentfile.ErrReplaced) {
		return nil, nil
	}
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			all = append(all, shim.Run(h.path("runs", e.Name())))
		}
	}
	return all, err
}

// runs returns the agent's runs and checks that were created completely, oldest first.
func (h Home) runs() ([]shim.Run, error) {
	all, err := h.runDirs()
	startTimes := map[shim.Run]time.Time{}
	for _, run := range all {
		if info, err := os.Lstat(run.Path(specFile)); err == nil {
			startTimes[run] = info.ModTime()
		}
	}
	all = slices.DeleteFunc(all, func(run shim.Run) bool { return startTimes[run].IsZero() })
	slices.SortStableFunc(all, func(a, b shim.Run) int { return startTimes[a].Compare(startTimes[b]) })
	return all, err
}

// sweep removes the remains of interrupted calls, and the output of old runs, before newRun is created, which may be a check.
func (h Home) sweep(newRun shim.Run) error {
	entries, err := agentfile.ReadDir(h.path("runs"))
	if err != nil {
		return err
	}
	for _, e := range entries {
		old := false
		if strings.HasPrefix(e.Name(), voidPrefix) {
			info, err := e.Info()
			old = err == nil && time.Since(info.ModTime()) > voidRetention
		}
		if old || strings.HasPrefix(e.Name(), newPrefix) {
			if err := sandbox.Remove(context.Background(), h.path("runs", e.Name())); err != nil {
				return err
			}
		}
	}
	if len(entries) < maxKeptRuns {
		return nil
	}
	runs, err := h.runs()
	if err != nil {
		return err
	}
	keptCount, oldCount := 0, len(runs)
	if !isCheck(newRun) {
		keptCount = 1
	}
	for ; oldCount > 0 && keptCount < maxKeptRuns; oldCount-- {
		if !isCheck(runs[oldCount-1]) { // a task's checks must not displace its run
			keptCount++
		}
	}
	for _, run := range runs[:oldCount] {
		if e, err := run.Exit(); err != nil || e == nil {
			continue
		}
		if _, err := os.Lstat(run.Path("output")); err != nil {
			continue
		}
		if err := removeExcept(string(run), specFile, formatFile, "claim", "exit.json"); err != nil {
			return err
		}
	}
	return nil
}

// isCheck reports whether the run executes a check.
func isCheck(run shim.Run) bool { return strings.Contains(filepath.Base(string(run)), checkSeparator) }
