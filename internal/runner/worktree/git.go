// Package worktree gives agents working copies of a repository that do not get in each other's way, on a branch of its
// own each. An agent has a git directory of its own, which borrows the repository's objects, and the agent cannot write
// the repository. What agents commit is collected into the repository, where people find it. The package also finds out
// what would be lost with a working copy.
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

	"fleet/internal/runner/sandbox"
)

// Git runs git without ever asking a person for anything.
type Git struct {
	env     []string
	limit   time.Duration // how long git may look at what an agent wrote, which can block it
	config  func() []string
	sources sync.Map // path of a mirror -> the URL that it is of
	locks   sync.Map // path of a repository -> *sync.Mutex: git's own locks fail instead of waiting
}

// New returns a Git that runs with the environment, made safe.
func New(env []string) *Git {
	g := &Git{limit: lookTime}
	g.config = sync.OnceValue(g.readConfig)
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
	err := g.pipe(ctx, nil, env, dir, nil, &out, args...)
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(out.String()), nil
}

// pipe is runWith with what confines git, what git reads and where its output goes. Policy and input may be nil.
func (g *Git) pipe(ctx context.Context, p *sandbox.Policy, env []string, dir string, in io.Reader, out io.Writer, args ...string) error {
	within := ctx
	if p != nil {
		limited, cancel := context.WithTimeout(ctx, g.limit)
		defer cancel()
		within = limited
	}
	// Hooks are for people's work in the repository, not for what Fleet does.
	args = append([]string{
		"-C", dir, "-c", "core.hooksPath=" + os.DevNull, "-c", "gc.auto=0", "-c", "maintenance.auto=false", "-c", "core.fsmonitor=false",
	}, args...)
	cmd := exec.CommandContext(within, "git", args...)
	cmd.Env = append(slices.Clone(g.env), env...)
	var errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, &errs
	gentle(cmd)
	if p != nil && sandbox.Available() == nil && cmd.Err == nil {
		if err := sandbox.Confine(cmd, *p); err != nil {
			return err
		}
	}
	// A git that outlived its server would be in the way of the next one's; see gentle.
	runtime.LockOSThread()
	err := cmd.Run()
	runtime.UnlockOSThread()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case within.Err() != nil:
		return &Error{Words: fmt.Sprintf("git did not end within %s: there may be a named pipe in place of one of its files", g.limit)}
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

// lookTime is the default of Git.limit.
const lookTime = 2 * time.Minute

// packTime is how many times as long as looking copying objects may take.
const packTime = 10

// patient returns a Git that waits longer.
func (g *Git) patient() *Git { return &Git{env: g.env, limit: packTime * g.limit, config: g.config} }

// readConfig returns the files of git's configuration that are outside the system's directories: those of the user, the
// files that these name, and where git itself is.
func (g *Git) readConfig() []string {
	var paths []string
	if program, err := exec.LookPath("git"); err == nil {
		paths = append(paths, program)
		if real, err := filepath.EvalSymlinks(program); err == nil {
			paths = append(paths, real)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), g.limit)
	defer cancel()
	if dir, err := g.run(ctx, "/", "--exec-path"); err == nil {
		paths = append(paths, dir)
	}
	for _, v := range g.env {
		name, value, _ := strings.Cut(v, "=")
		switch {
		case !filepath.IsAbs(value):
		case name == "HOME":
			paths = append(paths, filepath.Join(value, ".gitconfig"), filepath.Join(value, ".config/git"))
		case name == "XDG_CONFIG_HOME":
			paths = append(paths, filepath.Join(value, "git"))
		}
	}
	listed, _ := g.run(ctx, "/", "config", "--global", "--includes", "--show-origin", "-z", "--list") // an error: there is none
	fields := strings.Split(listed, "\x00")
	for i := 0; i+1 < len(fields); i += 2 {
		if file, ok := strings.CutPrefix(fields[i], "file:"); ok && filepath.IsAbs(file) {
			paths = append(paths, file)
		}
		switch key, _, _ := strings.Cut(fields[i+1], "\n"); key {
		case "core.excludesfile", "core.attributesfile":
			if file, err := g.run(ctx, "/", "config", "--global", "--includes", "--path", "--get", key); err == nil && filepath.IsAbs(file) {
				paths = append(paths, file)
			}
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
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
