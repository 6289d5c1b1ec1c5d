package local

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/runner"
	"fleet/internal/runner/driver"
	"fleet/internal/runner/sandbox"
	"fleet/internal/runner/worktree"
)

// treeCheckRetention is how long the result of a check of a commit is kept.
const treeCheckRetention = 24 * time.Hour

// treeCheck is a check of a commit. Its home is like that of an agent, with a tree of its own. It implements runner.Workspace.
type treeCheck struct {
	repository
	home   home
	commit string
}

// Check implements fleet.Repository.
func (r repository) Check(ctx context.Context, commit string, c fleet.Check) (fleet.CheckResult, error) {
	sum := sha256.Sum256([]byte(strings.Join([]string{r.project.Name, r.path, commit, c.ID, c.Command}, "\x00")))
	t := treeCheck{r, home(filepath.Join(r.place.checksDir(), hex.EncodeToString(sum[:16]))), commit}
	result, err := r.place.checks.do(ctx, t.home, func(ctx context.Context) (fleet.CheckResult, error) { return t.run(ctx, c) })
	return result, r.wrap(ctx, "cannot check the commit", err)
}

func (p *Place) checksDir() string { return filepath.Join(p.config.Dir, "checks") }

// run executes the check, or waits for an execution of an earlier process. Then it removes the tree, and keeps the result. If run fails,
// it ends the command and removes everything.
func (t treeCheck) run(ctx context.Context, c fleet.Check) (fleet.CheckResult, error) {
	err := runner.Home(t.home).Make()
	if err != nil {
		return fleet.CheckResult{}, runner.HostError("cannot create the directory of the check", err)
	}
	result, err := t.place.host.Agent("", runner.Home(t.home), t).CheckTree(ctx, c)
	parts := treeParts
	if err != nil {
		ended := t.place.host.End(context.WithoutCancel(ctx), runner.Home(t.home), "nobody waited for it")
		if ended != nil {
			return result, errors.Join(err, ended)
		}
		parts = nil
	}
	if rerr := t.place.removeCheck(context.WithoutCancel(ctx), t.home, parts); rerr != nil {
		t.place.config.Logger.WarnContext(ctx, "files of a check remain", "error", rerr) // Tidy removes them
	}
	return result, err
}

// treeParts are the parts of the home that the result does not need.
var treeParts = []string{"work", "git", "git.new", "git.link", "home", "tmp"}

// removeCheck removes the parts of the home or, without parts, all of it.
func (p *Place) removeCheck(ctx context.Context, h home, parts []string) error {
	trash, err := p.discardCheck(h, parts)
	if err != nil || trash == "" {
		return err
	}
	return sandbox.Remove(ctx, trash)
}

// discardCheck moves the parts of the home, or all of it, to a directory that is removed later.
func (p *Place) discardCheck(h home, parts []string) (trash string, err error) {
	from := []string{string(h)}
	if parts != nil {
		from = nil
		for _, name := range parts {
			from = append(from, h.join(name))
		}
	}
	from = slices.DeleteFunc(from, func(path string) bool {
		_, err := os.Lstat(path)
		return errors.Is(err, fs.ErrNotExist)
	})
	if len(from) == 0 {
		return "", nil
	}
	if trash, err = os.MkdirTemp(p.checksDir(), removedPrefix+"*"); err != nil {
		return "", err
	}
	for _, path := range from {
		err = errors.Join(err, os.Rename(path, filepath.Join(trash, filepath.Base(path))))
	}
	return trash, err
}

// tidyChecks removes the trees of checks that have ended while no server ran, and old results.
func (p *Place) tidyChecks(ctx context.Context, now time.Time) error {
	entries, err := os.ReadDir(p.checksDir())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return runner.HostError("cannot read the directory of checks", err)
	}
	var errs []error
	for _, e := range entries {
		trash := filepath.Join(p.checksDir(), e.Name())
		if !strings.HasPrefix(e.Name(), removedPrefix) {
			trash, err = p.checks.unlessRunning(home(trash), func(h home) (string, error) {
				ended, at, err := runner.Home(h).CheckTreeEnded()
				switch {
				case err != nil || !ended:
					return "", err
				case now.Sub(at) < treeCheckRetention:
					return p.discardCheck(h, treeParts)
				}
				return p.discardCheck(h, nil)
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

// Ready implements runner.Workspace.
func (t treeCheck) Ready() error { return nil }

// Tree implements runner.Workspace.
func (t treeCheck) Tree() (*runner.Tree, error) { return nil, nil } //nolint:nilnil // no work of an agent is in the tree

// Work implements runner.Workspace. It creates the tree.
func (t treeCheck) Work(fleet.Run) (runner.Work, error) {
	proj, p := t.project, t.place
	mode, err := p.sandboxOf(proj)
	if err != nil {
		return runner.Work{}, fleet.Errorf(fleet.ReasonProvisioningFailed, "the project %q cannot be confined as its configuration requires: %s", proj.Name, err)
	}
	ctx := context.Background() // git's own limit applies
	if err := p.removeCheck(ctx, t.home, treeParts); err != nil {
		return runner.Work{}, runner.HostError("cannot remove the tree of the check", err)
	}
	rec := &record{Name: proj.Name, Project: proj.Name, Repository: t.path}
	tree := t.home.tree(rec)
	if tree.Settings = runner.Unsigned + proj.Git.Settings(); mode != sandbox.None {
		if hidden := worktree.InaccessibleDir(t.path); hidden != "" {
			return runner.Work{}, fleet.Errorf(fleet.ReasonProvisioningFailed, "confined checks may not read %s: allow everybody to read it, or run the server as its owner", hidden)
		}
	}
	if err := p.git.CleanTree(ctx, tree, t.commit); err != nil {
		return runner.Work{}, t.wrap(ctx, "cannot create the tree of the check", err)
	}
	patterns := slices.Concat(proj.driver.Keys(), keyVariables[filepath.Base(proj.driver.Program())])
	if proj.driver, err = driver.New(driver.Options{Kind: "shell"}); err != nil { // the check gets neither the login nor the key of the agents' program
		return runner.Work{}, err
	}
	c, err := p.confine(proj, t.home, rec)
	if err != nil {
		return runner.Work{}, err
	}
	w := runner.Work{Driver: proj.driver, Job: driver.Job{Project: proj.Name}, Dir: tree.Dir}
	if c != nil {
		w.Sandbox = &c.policy
	} else {
		c = &confinement{env: t.home.environ()}
		if err := p.equip(proj, t.home, rec, c); err != nil {
			return runner.Work{}, err
		}
	}
	w.Environ = func(own map[string]string) []string {
		for _, name := range []string{"FLEET_TASK_ID", "FLEET_AGENT", "FLEET_ROLE"} {
			delete(own, name)
		}
		own["FLEET_COMMIT"] = t.commit
		env := p.environ(proj, c, own)
		keys := runner.Pick(env, patterns)
		return slices.DeleteFunc(env, func(v string) bool {
			name, _, _ := strings.Cut(v, "=")
			_, key := keys[name]
			return key
		})
	}
	return w, nil
}
