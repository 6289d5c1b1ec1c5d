package repository

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/runner"
	"fleet/internal/runner/sandbox"
)

// resultRetention is how long the result of a check of a commit is kept.
const resultRetention = 24 * time.Hour

// Checks executes checks of commits. Each check has a home below Dir with the layout of an agent's home: the tree is in work, the
// tree's git directory in git, and the check's own files in home and tmp.
type Checks struct {
	Dir    string
	Host   *runner.Host  // executes the commands of the checks
	Logger *slog.Logger  // required
	Linger time.Duration // how long a check continues while nobody waits for it; 0 means that it ends at once

	executions executions
}

// WorkspaceFunc returns the workspace of the check with the home. The method Work of the workspace creates the tree in the home, after
// it has removed an old tree with Checks.Clear.
type WorkspaceFunc func(home string) runner.Workspace

// Run executes the check and returns its result. If an earlier process has started the check, Run waits for that execution or
// returns its result. The key identifies the repository and the commit.
func (s *Checks) Run(ctx context.Context, c fleet.Check, w WorkspaceFunc, key ...string) (fleet.CheckResult, error) {
	sum := sha256.Sum256([]byte(strings.Join(append(key, c.ID, c.Command), "\x00")))
	home := filepath.Join(s.Dir, hex.EncodeToString(sum[:16]))
	return s.executions.execute(ctx, home, s.Linger, func(ctx context.Context) (fleet.CheckResult, error) { return s.run(ctx, home, w(home), c) })
}

// run executes the check. Then it removes the tree, but not the result. If the check cannot be executed, run ends the command and
// removes the whole home.
func (s *Checks) run(ctx context.Context, home string, w runner.Workspace, c fleet.Check) (fleet.CheckResult, error) {
	err := runner.Home(home).Make()
	if err != nil {
		return fleet.CheckResult{}, runner.HostError("cannot create the directory of the check", err)
	}
	result, err := s.Host.Agent("", runner.Home(home), w).CheckTree(ctx, c)
	parts := treeParts
	if err != nil {
		endErr := s.Host.End(context.WithoutCancel(ctx), runner.Home(home), "nobody waited for it")
		if endErr != nil {
			return result, errors.Join(err, endErr)
		}
		parts = nil
	}
	if rerr := s.remove(context.WithoutCancel(ctx), home, parts); rerr != nil {
		s.Logger.WarnContext(ctx, "files of a check remain", "error", rerr) // Tidy removes them
	}
	return result, err
}

// Wait waits until no check runs.
func (s *Checks) Wait() { s.executions.running.Wait() }

// treeParts are the parts of a home that the result does not need.
var treeParts = []string{"work", "git", "git.new", "git.link", "home", "tmp"}

// Clear removes the tree and the own files of the check with the home.
func (s *Checks) Clear(ctx context.Context, home string) error { return s.remove(ctx, home, treeParts) }

// remove removes the parts of the home, or the whole home if parts is nil.
func (s *Checks) remove(ctx context.Context, home string, parts []string) error {
	trash, err := s.moveToTrash(home, parts)
	if err != nil || trash == "" {
		return err
	}
	return sandbox.Remove(ctx, trash)
}

// removedPrefix is the prefix of directories that are being removed.
const removedPrefix = ".removed-"

// moveToTrash moves the parts of the home, or the whole home if parts is nil, to the directory trash, which the caller must remove.
// trash is empty if there was nothing to move.
func (s *Checks) moveToTrash(home string, parts []string) (trash string, err error) {
	from := []string{home}
	if parts != nil {
		from = nil
		for _, name := range parts {
			from = append(from, filepath.Join(home, name))
		}
	}
	from = slices.DeleteFunc(from, func(path string) bool {
		_, err := os.Lstat(path)
		return errors.Is(err, fs.ErrNotExist)
	})
	if len(from) == 0 {
		return "", nil
	}
	if trash, err = os.MkdirTemp(s.Dir, removedPrefix+"*"); err != nil {
		return "", err
	}
	for _, path := range from {
		err = errors.Join(err, os.Rename(path, filepath.Join(trash, filepath.Base(path))))
	}
	return trash, err
}

// Tidy removes the trees of checks that have ended while no process waited for them. It also removes results that are older than
// resultRetention.
func (s *Checks) Tidy(ctx context.Context, now time.Time) error {
	entries, err := os.ReadDir(s.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return runner.HostError("cannot read the directory of checks", err)
	}
	var errs []error
	for _, e := range entries {
		home := filepath.Join(s.Dir, e.Name())
		trash := home
		if !strings.HasPrefix(e.Name(), removedPrefix) {
			trash, err = s.executions.unlessRunning(home, func() (string, error) {
				ended, at, err := runner.Home(home).CheckTreeEnded()
				switch {
				case err != nil || !ended:
					return "", err
				case now.Sub(at) < resultRetention:
					return s.moveToTrash(home, treeParts)
				}
				return s.moveToTrash(home, nil)
			})
			errs = append(errs, err)
		}
		if trash != "" {
			errs = append(errs, sandbox.Remove(ctx, trash))
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return errors.Join(errs...)
}
