package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"

	"fleet/internal/fleet"
	"fleet/internal/runner"
	"fleet/internal/runner/process"
	"fleet/internal/runner/sandbox"
	"fleet/internal/scratch"
)

// DeniedError is the error of TryProgram for a program that does not work in the sandbox.
type DeniedError struct {
	Program       string // path
	Message       string // the line of the program's output that says why; empty if there was no output
	UnreadableDir string // the directory that the program probably needs to read; empty if it is unknown
}

func (d *DeniedError) Error() string {
	return fmt.Sprintf("%s does not work in the sandbox: %s", d.Program, d.Message)
}

// maxVersionOutput limits how much of a tried program's output is kept, in bytes.
const maxVersionOutput = 16 << 10

// TryProgram runs the program of the project with the name, with the argument --version. The program is confined like a program of
// an agent, and has no network. TryProgram returns a *DeniedError if the program exits with an error, and nil if it succeeds or if
// programs of the project are not confined.
func TryProgram(ctx context.Context, c Config, name string) error {
	projects, err := c.validate()
	if err != nil {
		return err
	}
	p := &Place{config: c}
	p.setup.Store(&setup{projects: projects})
	proj, err := p.project(name)
	if err != nil {
		return err
	}
	if mode, err := p.sandboxOf(proj); err != nil || mode == sandbox.None {
		return err
	}
	temp, err := scratch.Open(filepath.Join(c.Dir, "tmp"))
	if err != nil {
		return err
	}
	defer func() {
		_ = sandbox.Remove(context.WithoutCancel(ctx), temp.Path())
		_ = temp.Close()
	}()
	dir, err := filepath.EvalSymlinks(temp.Path())
	if err == nil {
		err = os.Mkdir(home(dir).workDir(), 0o700)
	}
	if err != nil {
		return err
	}
	confinement, err := p.confine(proj, home(dir), nil)
	if err != nil {
		return err
	}
	env := p.environ(proj, confinement, nil)
	program, err := runner.FindProgram(proj.driver.Program(), env, "/")
	if err != nil {
		return err
	}
	policy := confinement.policy
	policy.Read = append(policy.Read, runner.ReadablePaths(env, program)...)
	policy.Network = sandbox.Offline
	cmd := exec.CommandContext(ctx, program, "--version")
	out := &process.Head{Max: maxVersionOutput}
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = home(dir).workDir(), env, out, out
	cmd.SysProcAttr = process.Attributes()
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	if err := sandbox.Confine(cmd, policy); err != nil {
		return err
	}
	runtime.LockOSThread() // see process.Attributes
	defer runtime.UnlockOSThread()
	if err := process.Run(ctx, cmd, 0); err == nil {
		return nil
	} else if _, exited := errors.AsType[*exec.ExitError](err); !exited || ctx.Err() != nil {
		return err
	}
	d := &DeniedError{Program: program}
	d.Message, d.UnreadableDir = findDenial(out.String(), policy)
	return d
}

var (
	denialPattern       = regexp.MustCompile(`(?i)permission denied|operation not permitted|EACCES|EPERM`)
	absolutePathPattern = regexp.MustCompile(`/[^\s:;,'"()<>]+`)
)

// findDenial returns the line of the output that probably says why the program failed, and the directory that the program could not
// read. dir is empty if no line names an existing path that the policy does not allow to read.
func findDenial(output string, p sandbox.Policy) (line, dir string) {
	for l := range strings.Lines(output) {
		if l = strings.TrimSpace(l); line == "" || denialPattern.MatchString(l) && !denialPattern.MatchString(line) {
			line = l
		}
		if !denialPattern.MatchString(l) {
			continue
		}
		for _, path := range absolutePathPattern.FindAllString(l, -1) {
			info, err := os.Stat(path)
			if err != nil || allowsReading(p, path) {
				continue
			}
			if !info.IsDir() {
				path = filepath.Dir(path)
			}
			return fleet.Shorten(l, maxDenialLine), path
		}
	}
	return fleet.Shorten(line, maxDenialLine), ""
}

// maxDenialLine limits the line that findDenial returns, in characters.
const maxDenialLine = 300

// allowsReading reports whether the policy allows reading the path.
func allowsReading(p sandbox.Policy, path string) bool {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	for _, list := range [][]string{p.Read, p.Write} {
		for _, dir := range list {
			if isInside(dir, path) || isInside(linkTarget(dir), path) {
				return true
			}
		}
	}
	return false
}
