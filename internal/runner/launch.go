package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/place/agentfile"
	"fleet/internal/runner/process"
	"fleet/internal/runner/shim"
)

// startTimeout is how long a supervisor may take to start its program. Most need milliseconds, but the machine may be very busy.
const startTimeout = 30 * time.Second

// launch starts a supervisor for the run, and returns when the supervisor has started the program.
func (host *Host) launch(ctx context.Context, agent string, h Home, run shim.Run, env []string) error {
	pipe, err := host.spawn(run, env)
	if err != nil {
		discardUnstarted(run)
		return HostError("cannot start the run's supervisor", err)
	}
	defer func() { _ = pipe.Close() }()
	_ = pipe.SetReadDeadline(time.Now().Add(startTimeout))
	defer context.AfterFunc(ctx, func() { _ = pipe.SetReadDeadline(time.Unix(1, 0)) })()

	var handshake shim.Handshake
	err = json.NewDecoder(pipe).Decode(&handshake)
	switch {
	case err == nil && handshake.NamespaceFailed:
		host.shareProcesses(errors.New(handshake.Error))
		return host.launch(ctx, agent, h, run, env)
	case err == nil && handshake.Error != "":
		discardUnstarted(run)
		return fleet.Errorf(fleet.ReasonProvisioningFailed, "cannot start the program: %s", handshake.Error)
	case err != nil && ctx.Err() != nil:
		return ctx.Err() // the next call finds out whether the program has started
	case err != nil:
		// The supervisor ended without a message, or takes too long.
		claimed, serr := settleUnclaimed(run)
		if serr != nil {
			return serr
		}
		if !claimed {
			why := "it did not answer"
			if errors.Is(err, io.EOF) {
				why = "it ended at once"
			}
			return fleet.Errorf(fleet.ReasonBackendUnavailable, "cannot start the run's supervisor: %s", why).WithCause(err)
		}
	}
	host.config.Logger.DebugContext(ctx, "run started", "agent", agent, "task", filepath.Base(string(run)))
	return nil
}

// shareProcesses records that runs cannot have their own pid namespaces here. Then supervisors find the processes of a run
// in other ways.
func (host *Host) shareProcesses(why error) {
	if !host.processesShared.Swap(true) {
		host.config.Logger.Info("runs have no pid namespaces of their own, continuing without", "error", why)
	}
}

// discardUnstarted removes a run that was not started. It ignores errors, because the caller already returns one.
func discardUnstarted(run shim.Run) { _, _ = settleUnclaimed(run) }

// spawn starts the supervisor. It returns a pipe on which the supervisor reports whether the program has started.
func (host *Host) spawn(run shim.Run, env []string) (*os.File, error) {
	spec, err := run.Spec()
	if err != nil {
		return nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = w.Close() }()
	logFile, err := agentfile.OpenAppend(run.Path("shim.log"))
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	defer func() { _ = logFile.Close() }()
	cmd := exec.Command(host.config.Program, shimCommand, string(run))
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = env, string(run), logFile, logFile, []*os.File{w}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // so that signals to the server do not reach the supervisor
	// A program that is not confined may have tasks that concern other processes of the machine.
	separate := spec.Sandbox != nil && !host.processesShared.Load()
	if separate {
		process.AddNamespace(cmd.SysProcAttr)
	}
	err = cmd.Start()
	if separate && process.IsNamespaceError(err) {
		host.shareProcesses(err)
		_ = r.Close()
		return host.spawn(run, env)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", host.config.Program, err), r.Close())
	}
	pid := cmd.Process.Pid
	_ = cmd.Process.Release()
	host.reaper.add(pid)
	return r, nil
}
