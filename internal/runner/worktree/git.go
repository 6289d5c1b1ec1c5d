// Package worktree gives each agent a working copy of a repository, on a branch of its own. An agent has its own git
// directory, which uses the repository's objects. The agent cannot write the repository. The package copies the agent's
// commits into the repository, where people find them. It also reports the work that would be lost with a working copy,
// combines the work of agents with branches, and moves and pushes branches.
//
// Package runner and the places on this machine use it. It must never run git with an agent's configuration on files
// that the agent wrote. It must never change a branch that people have changed, except when it is asked to move the branch from
// its current commit.
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

	"golang.org/x/sync/semaphore"

	"fleet/internal/runner/process"
	"fleet/internal/runner/sandbox"
)

// Git runs git without prompts.
type Git struct {
	program     string // absolute path of git; empty if git was not found
	env         []string
	temp        string        // directory for temporary files
	timeout     time.Duration // time limit for reading files that an agent wrote, because they can block git
	memory      uint64        // memory limit for reading such files, in bytes
	configPaths func() []string
	sources     sync.Map // from the path of a mirror to its URL
	locks       sync.Map // from the name of a lock to a *semaphore.Weighted, because git's own locks fail instead of waiting
}

// Program returns the absolute path of git. It is looked up once, so that no program that appears on PATH later can replace it.
var Program = sync.OnceValues(func() (string, error) {
	path, err := exec.LookPath("git")
	if err != nil || !filepath.IsAbs(path) {
		return "", errNoGit
	}
	return path, nil
})

var errNoGit = &Error{Message: "git was not found when this process started: install the package \"git\" of your system and restart the server, or remove repository from the project"}

// New returns a Git that runs git with the environment, but without variables that change what git does, and so that
// git asks no questions. Its temporary files are in the directory temp, which must exist.
func New(env []string, temp string) *Git {
	program, _ := Program() // each call of git reports that git is missing
	g := &Git{program: program, timeout: readTimeout, memory: 2 << 30, temp: temp}
	g.configPaths = sync.OnceValue(g.findConfigPaths)
	hasSSH := false
	for _, v := range env {
		name, _, _ := strings.Cut(v, "=")
		isSSH := name == "GIT_SSH_COMMAND" || name == "GIT_SSH"
		hasSSH = hasSSH || isSSH
		if isSSH || !strings.HasPrefix(name, "GIT_") { // GIT_DIR and similar variables would change git's paths
			g.env = append(g.env, v)
		}
	}
	if !hasSSH {
		g.env = append(g.env, "GIT_SSH_COMMAND=ssh -o BatchMode=yes -o ConnectTimeout=60 -o ServerAliveInterval=60 -o ServerAliveCountMax=5")
	}
	g.env = append(
		g.env, "GIT_TERMINAL_PROMPT=0", "GCM_INTERACTIVE=never", "LC_ALL=C", "GIT_OPTIONAL_LOCKS=0", "GIT_NO_LAZY_FETCH=1", "GIT_PAGER=cat", "GIT_EDITOR=true",
	)
	return g
}

// Error is an error of git, or of this package about git. Its message has no credentials.
type Error struct {
	Message string
	code    int // git's exit code; 0 if git has not exited
}

func (e *Error) Error() string { return e.Message }

// exitCode returns git's exit code; 0 if err does not have it.
func exitCode(err error) int {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.code
	}
	return 0
}

var credentialPattern = regexp.MustCompile(`://[^/@\s]+@`)

// Scrub removes credentials from URLs in a text.
func Scrub(s string) string { return credentialPattern.ReplaceAllString(s, "://") }

// run runs git in the directory and returns its trimmed output. git reads the repository's own configuration, which
// agents can write. Commands that read or write files of a working tree, read objects, or use the network must use a
// view instead.
func (g *Git) run(ctx context.Context, dir string, args ...string) (string, error) {
	return g.runWith(ctx, nil, dir, args...)
}

// runWith works like run, with additional environment variables.
func (g *Git) runWith(ctx context.Context, env []string, dir string, args ...string) (string, error) {
	var out bytes.Buffer
	err := g.pipe(ctx, nil, env, dir, nil, &out, args...)
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(out.String()), nil
}

// pipe works like runWith, with a sandbox policy, an input and an output. The policy p and the input may be nil. If p
// is not nil, g.timeout applies.
func (g *Git) pipe(ctx context.Context, p *sandbox.Policy, env []string, dir string, in io.Reader, out io.Writer, args ...string) error {
	var stderr tailBuffer
	return g.pipeWithStderr(ctx, p, env, dir, in, out, &stderr, args...)
}

// pipeWithStderr works like pipe. stderr gets git's warnings and errors.
func (g *Git) pipeWithStderr(ctx context.Context, p *sandbox.Policy, env []string, dir string, in io.Reader, out io.Writer, stderr *tailBuffer, args ...string) error {
	if g.program == "" {
		return errNoGit
	}
	limitedCtx := ctx
	if p != nil {
		var cancel context.CancelFunc
		limitedCtx, cancel = context.WithTimeout(ctx, g.timeout)
		defer cancel()
	}
	// Hooks are meant for the people who commit, and not for Fleet.
	args = append([]string{
		"-C", dir, "-c", "core.hooksPath=" + os.DevNull, "-c", "gc.auto=0", "-c", "maintenance.auto=false", "-c", "core.fsmonitor=false",
		"-c", "core.bigFileThreshold=64m", "-c", "pack.threads=1", "-c", "pack.windowMemory=256m", // so that git stays within g.memory
		"-c", "http.lowSpeedLimit=1", "-c", "http.lowSpeedTime=300", // git gives up after so many seconds without a byte
	}, args...)
	cmd := exec.CommandContext(limitedCtx, g.program, args...)
	cmd.Env = append(slices.Clone(g.env), env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, stderr
	stopGracefully(cmd)
	if !slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, "GIT_DIR=") }) {
		ownerOf(dir).setCredential(cmd)
	}
	if p != nil && sandbox.Available() == nil && cmd.Err == nil {
		if err := sandbox.Confine(cmd, *p); err != nil {
			return err
		}
	}
	// A git process that survives its server would disturb the next server. So git gets a signal when the thread that
	// started it ends; see stopGracefully.
	runtime.LockOSThread()
	err := process.Run(limitedCtx, cmd, 0)
	runtime.UnlockOSThread()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case limitedCtx.Err() != nil:
		return &Error{Message: fmt.Sprintf("git did not end within %s: one of its files may be a named pipe", g.timeout)}
	case err != nil:
		message := strings.TrimSpace(Scrub(stderr.String()))
		if message == "" {
			message = err.Error()
		}
		e := &Error{Message: message}
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			e.code = exit.ExitCode()
		}
		return e
	}
	return nil
}

// limits returns the limits for git when it reads files that an agent wrote. A small index or a few small trees can have
// gigabytes of paths.
func (g *Git) limits() sandbox.Limits {
	return sandbox.Limits{Memory: g.memory, CPU: packTimeFactor * g.timeout, FileSize: 16 << 30, Descriptors: 1024}
}

// lock takes the lock with the name. It excludes only other calls in this process. The name is the path of a repository, for changes of
// its refs, or begins with "branches of", for changes of branches that people may have checked out, or with "fetches of", for the
// remote branches of a mirror.
func (g *Git) lock(ctx context.Context, name string) (unlock func(), err error) {
	stored, _ := g.locks.LoadOrStore(name, semaphore.NewWeighted(1))
	lock := stored.(*semaphore.Weighted)
	if err := lock.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	return func() { lock.Release(1) }, nil
}

// readTimeout is the default of Git.timeout.
const readTimeout = 2 * time.Minute

// packTimeFactor multiplies Git.timeout for copying objects.
const packTimeFactor = 10

// withPackTimeout returns a Git with the longer limit. It does not share the locks of g, so it must not change refs.
func (g *Git) withPackTimeout() *Git {
	return &Git{program: g.program, env: g.env, temp: g.temp, timeout: packTimeFactor * g.timeout, memory: g.memory, configPaths: g.configPaths}
}

// stopTimeout is how long git may clean up after its context is done.
const stopTimeout = 5 * time.Second

// RemoveAll removes the path with everything in it. Agents may have written it, so a confined process removes the content of a
// directory.
func RemoveAll(path string) error { return sandbox.Remove(context.Background(), path) }
