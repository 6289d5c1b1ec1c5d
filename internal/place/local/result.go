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
	"fleet/internal/runner/shim"
	"fleet/internal/runner/worktree"
)

// untilSuffix ends the name of the file that says until when a directory of results is kept, beside the directory.
const untilSuffix = ".until"

// results is the directory of an agent whose files outlive it: see fleet.Recipe.Keep. It is where the agent works from
// the beginning, so nothing has to be moved.
func (b *Place) results(uid string) string {
	return filepath.Join(b.config.Dir, "results", runner.FileName(uid))
}

// keepResults decides what becomes of the results of an agent that is being deleted: files are kept for a while, and an
// empty directory is not. The path follows from the agent's uid, never from a file that the agent could have changed.
func (b *Place) keepResults(a fleet.Agent, h home, r *record) error {
	dir := b.results(a.UID)
	if !r.Deleting {
		made, err := hasFiles(dir)
		if err != nil {
			return runner.HostError("the agent's files cannot be looked at", err)
		}
		if made {
			until := time.Now().Add(a.Recipe.Keep).UTC().Truncate(time.Second).Format(time.RFC3339)
			if err := shim.WriteFile(dir+untilSuffix, []byte(until), 0o600); err != nil {
				return runner.HostError("the agent's files cannot be kept", err)
			}
			r.Kept = fmt.Sprintf("its files are kept in %s until %s", dir, until)
		}
		r.Deleting = true
		if err := h.write(r); err != nil { // so that a call after a crash keeps the same, and says so
			return runner.HostError("the record of the agent cannot be written", err)
		}
	}
	if _, err := os.Lstat(dir + untilSuffix); errors.Is(err, fs.ErrNotExist) {
		if err := worktree.RemoveAll(dir); err != nil {
			return runner.HostError("the directory of the agent cannot be removed", err)
		}
	}
	return nil
}

// hasFiles reports whether there is anything but directories in the directory. One that is gone has none.
func hasFiles(dir string) (found bool, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		}
		if !d.IsDir() {
			found = true
			return filepath.SkipAll
		}
		return nil
	})
	if errors.Is(err, fs.ErrPermission) { // there may be files in what cannot be read
		return true, nil
	}
	return found, err
}

// Tidy implements fleet.Tidier: it removes the results that were kept long enough.
func (b *Place) Tidy(ctx context.Context, now time.Time) error {
	dir := filepath.Join(b.config.Dir, "results")
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return runner.HostError("the directory of results cannot be read", err)
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
		if err != nil || now.Before(until) { // one that cannot be parsed is a person's to look at
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
