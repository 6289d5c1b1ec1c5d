package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/runner"
	"fleet/internal/runner/sandbox"
	"fleet/internal/runner/shim"
	"fleet/internal/runner/worktree"
)

// untilSuffix is the suffix of a file next to a directory of results. The file contains the time until which the
// directory is kept.
const untilSuffix = ".until"

// resultsDir returns the working directory of an agent whose files outlive the agent; see fleet.AgentConfig.KeepFilesFor. The
// agent works there from the start, so that no files have to be moved later.
func (p *Place) resultsDir(uid string) string {
	return filepath.Join(p.config.Dir, "results", runner.FileName(uid))
}

// keepResults keeps or removes the results of an agent that is being deleted. If there are files, it keeps them
// for the configured time. If there are none, it removes the directory. It derives the path from the agent's uid, not
// from a file, because the agent could have changed any file.
func (p *Place) keepResults(ctx context.Context, a fleet.Agent, r *record) error {
	dir := p.resultsDir(a.UID)
	if !r.Deleting {
		found, err := hasFiles(ctx, dir)
		if err != nil {
			return runner.HostError("cannot read the agent's files", err)
		}
		if found {
			until := time.Now().Add(a.Config.KeepFilesFor).UTC().Truncate(time.Second).Format(time.RFC3339)
			if err := shim.WriteFile(dir+untilSuffix, []byte(until)); err != nil {
				return runner.HostError("cannot keep the agent's files", err)
			}
			r.KeptOutside = fmt.Sprintf("its files are kept in %s until %s", dir, until)
		}
	}
	if _, err := os.Lstat(dir + untilSuffix); errors.Is(err, fs.ErrNotExist) {
		if err := worktree.RemoveAll(dir); err != nil {
			return runner.HostError("cannot remove the agent's directory", err)
		}
	}
	return nil
}

// hasFiles reports whether there is anything but directories in the directory or below it. It returns false if the
// directory does not exist, and true if it cannot be examined. The error is that of ctx.
func hasFiles(ctx context.Context, dir string) (bool, error) {
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	s, err := sandbox.Examine(ctx, dir)
	return err != nil || s.Files > 0, ctx.Err()
}

// tidyResults removes the results whose retention time is over.
func (p *Place) tidyResults(ctx context.Context, now time.Time) error {
	dir := filepath.Join(p.config.Dir, "results")
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return runner.HostError("cannot read the directory of results", err)
	}
	var errs []error
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), untilSuffix)
		if !ok || !e.Type().IsRegular() {
			continue
		}
		path := filepath.Join(dir, e.Name())
		text, err := os.ReadFile(path)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		until, err := time.Parse(time.RFC3339, string(text))
		if err != nil || now.Before(until) { // if the time cannot be read, the files stay until an administrator removes them
			continue
		}
		if err = worktree.RemoveAll(filepath.Join(dir, name)); err == nil {
			err = os.Remove(path)
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return errors.Join(errs...)
}
