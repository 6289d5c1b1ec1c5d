package probe

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"fleet/internal/runner/process"
)

// maxOutput limits how much of a program's output is kept, in bytes.
const maxOutput = 4 << 10

// harmlessVariables are the variables that programs need to start. They hold no secrets.
var harmlessVariables = []string{"PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"}

// harmlessEnviron returns an environment without secrets, for a program that only prints its version.
func harmlessEnviron(environ []string) (env []string) {
	for _, v := range environ {
		name, _, _ := strings.Cut(v, "=")
		if slices.Contains(harmlessVariables, name) {
			env = append(env, v)
		}
	}
	return append(env, "NO_COLOR=1", "CI=1", "DISABLE_AUTOUPDATER=1", "DISABLE_TELEMETRY=1")
}

// Version runs the program with --version. It returns the path of the program and the beginning of its output. The
// program runs in its own process group, which Version kills afterwards. Version returns exec.ErrNotFound and an empty
// path if the program is not found, and an error with the output if the program fails.
func (p *Prober) Version(ctx context.Context, program string) (path, output string, err error) {
	if path = p.find(program); path == "" {
		return "", "", exec.ErrNotFound
	}
	if err := ctx.Err(); err != nil {
		return path, "", err
	}
	out := &process.Head{Max: maxOutput}
	cmd := exec.CommandContext(ctx, path, "--version")
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = p.environ, "/", out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	err = process.Run(ctx, cmd, 0)
	if cmd.Process == nil {
		return path, "", errors.New("cannot start: " + rootCause(err).Error())
	}
	_ = cmd.Cancel() // kills remaining child processes; it fails if there are none
	output = out.String()
	exit, failed := errors.AsType[*exec.ExitError](err)
	switch {
	case err != nil && ctx.Err() != nil:
		return path, output, ctx.Err()
	case failed && exit.ExitCode() >= 0:
		return path, output, fmt.Errorf("%s --version ended with exit code %d", filepath.Base(path), exit.ExitCode())
	case failed:
		return path, output, fmt.Errorf("%s --version ended by a signal", filepath.Base(path))
	}
	return path, output, err
}

// find returns the path of the program, or "" if it is not found. It finds no program by a relative path or in a relative directory
// of PATH.
func (p *Prober) find(program string) string {
	if strings.ContainsRune(program, '/') {
		if filepath.IsAbs(program) {
			path, _ := exec.LookPath(program)
			return path
		}
		return ""
	}
	for _, dir := range filepath.SplitList(p.path) {
		if !filepath.IsAbs(dir) {
			continue
		}
		if path, err := exec.LookPath(filepath.Join(dir, program)); err == nil {
			return path
		}
	}
	return ""
}
