// Package worktree gives agents working copies of a repository that do not get in each other's way: a git worktree
// each, on a branch of its own. It finds out what would be lost with one, too.
package worktree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// Git runs git without ever asking a person for anything.
type Git struct {
	env     []string
	sources sync.Map // path of a mirror -> the URL that it is of
	locks   sync.Map // path of a repository -> *sync.Mutex: git's own locks fail instead of waiting
}

// New returns a Git that runs with the environment, made safe.
func New(env []string) *Git {
	g := &Git{}
	ssh := false
	for _, v := range env {
		name, _, _ := strings.Cut(v, "=")
		own := name == "GIT_SSH_COMMAND" || name == "GIT_SSH"
		ssh = ssh || own
		if own || !strings.HasPrefix(name, "GIT_") { // GIT_DIR and its like would lead git elsewhere
			g.env = append(g.env, v)
		}
	}
	if !ssh {
		g.env = append(g.env, "GIT_SSH_COMMAND=ssh -o BatchMode=yes")
	}
	g.env = append(
		g.env, "GIT_TERMINAL_PROMPT=0", "GCM_INTERACTIVE=never", "LC_ALL=C", "GIT_OPTIONAL_LOCKS=0", "GIT_NO_LAZY_FETCH=1", "GIT_PAGER=cat", "GIT_EDITOR=true",
	)
	return g
}

// Error is what git said when it failed. It has no credentials in it.
type Error struct{ Words string }

func (e *Error) Error() string { return e.Words }

var credentials = regexp.MustCompile(`://[^/@\s]+@`)

// Scrub removes credentials from a text with URLs in it.
func Scrub(s string) string { return credentials.ReplaceAllString(s, "://") }

// run runs git in the directory and returns what it wrote, without spaces around it. git reads the repository's own
// configuration, which agents can write: commands that read or write files of a working tree, look at objects, or use
// the network go through a view instead.
func (g *Git) run(ctx context.Context, dir string, args ...string) (string, error) {
	return g.runWith(ctx, nil, dir, args...)
}

// runWith is run with more variables in the environment.
func (g *Git) runWith(ctx context.Context, env []string, dir string, args ...string) (string, error) {
	var out bytes.Buffer
	err := g.pipe(ctx, env, dir, nil, &out, args...)
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(out.String()), nil
}

// pipe is runWith with what git reads, which may be nil, and where its output goes.
func (g *Git) pipe(ctx context.Context, env []string, dir string, in io.Reader, out io.Writer, args ...string) error {
	// Hooks are for people's work in the repository, not for making and removing worktrees.
	args = append([]string{
		"-C", dir, "-c", "core.hooksPath=" + os.DevNull, "-c", "gc.auto=0", "-c", "maintenance.auto=false", "-c", "core.fsmonitor=false",
	}, args...)
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Env = append(slices.Clone(g.env), env...)
	var errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, &errs
	gentle(cmd)
	// A git that outlived its server would be in the way of the next one's; see gentle.
	runtime.LockOSThread()
	err := cmd.Run()
	runtime.UnlockOSThread()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, exec.ErrNotFound):
		return &Error{Words: "git was not found: install the package \"git\" of your system, or leave the project's repository out"}
	case err != nil:
		said := strings.TrimSpace(Scrub(errs.String()))
		if said == "" {
			said = err.Error()
		}
		return &Error{Words: said}
	}
	return nil
}

// lock keeps everybody else from changing the repository.
func (g *Git) lock(repository string) (unlock func()) {
	m, _ := g.locks.LoadOrStore(repository, &sync.Mutex{})
	m.(*sync.Mutex).Lock()
	return m.(*sync.Mutex).Unlock
}

// stopTime is how long git gets to clean up when it is cut off.
const stopTime = 5 * time.Second

// RemoveAll removes the directory and everything in it, also what is read-only, such as caches of modules.
func RemoveAll(dir string) error {
	err := os.RemoveAll(dir)
	if err == nil || !errors.Is(err, os.ErrPermission) {
		return err
	}
	_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("%s cannot be removed: %w", dir, err)
	}
	return nil
}
