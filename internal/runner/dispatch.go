package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/place/agentfile"
	"fleet/internal/runner/ask"
	"fleet/internal/runner/driver"
	"fleet/internal/runner/shim"
)

// What a run keeps about itself: what to run, and how its output is read.
const (
	specFile   = "run.json"
	formatFile = "format.json"
)

// reportFile is where a run has the token with which it reports.
const reportFile = "report-token"

// What a program writes of its result.
const (
	summaryFile = shim.FilesDir + "/summary"
	payloadFile = shim.FilesDir + "/payload"
)

// startTime is how long a shim may take to start a program, on a machine that is very busy.
const startTime = 30 * time.Second

// Dispatch implements fleet.Runner. The run belongs to the agent from the moment a shim has claimed it; until then,
// every later call makes sure that the shim of an earlier one never will.
func (w Agent) Dispatch(ctx context.Context, r fleet.Run) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	h := w.home
	run := h.run(r.TaskID)
	if given, err := settleClaim(run); err != nil || given {
		return err
	}
	if err := w.ws.Ready(); err != nil {
		return err
	}
	if err := w.free(FileName(r.TaskID)); err != nil {
		return err
	}
	work, err := w.ws.Work(r)
	if err != nil {
		return err
	}
	env, err := w.host.prepare(work, r, h)
	if err != nil {
		return err
	}
	w.begin(ctx, r)
	if err := ctx.Err(); err != nil {
		return err // the next call records where the run begins
	}
	return w.host.launch(ctx, w.name, h, run, env)
}

// free returns AGENT_BUSY if the agent works on another run than the one with the name.
func (w Agent) free(name string) error {
	id := w.home.read("active")
	if id == "" || id == name {
		return nil
	}
	busy, err := underWay(shim.Run(w.home.path("runs", id)))
	if err != nil {
		return HostError("cannot read the agent's last run", err)
	}
	if busy {
		return fleet.Errorf(fleet.ReasonAgentBusy, "the agent %q works on the task %s", w.name, id).With("task_id", id)
	}
	return nil
}

// settleClaim reports whether the run was given to the agent. When nobody has claimed it, nobody will, and what there is
// of it is put away.
func settleClaim(run shim.Run) (given bool, err error) {
	if _, err := os.Stat(string(run)); gone(err) {
		return false, nil
	}
	void, err := run.Void()
	if errors.Is(err, agentfile.ErrReplaced) { // it was claimed, and the agent has replaced the claim
		return true, nil
	}
	if err != nil {
		return false, HostError("cannot claim the run", err)
	}
	if !void {
		e, err := run.Exit()
		if err != nil && !errors.Is(err, agentfile.ErrReplaced) {
			return false, HostError("cannot read the run's end", err)
		}
		if e == nil || e.End != shim.NotStarted {
			return true, nil
		}
	}
	return false, putAway(run)
}

// gone reports whether a path does not exist, for example because the agent has put a file in the place of a directory.
func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// putAway takes a run that was never started out of the way. Its claim stays, in case a late shim still has the
// directory open.
func putAway(run shim.Run) error {
	dir, err := os.MkdirTemp(filepath.Dir(string(run)), ".void-*")
	if err == nil {
		err = os.Rename(string(run), filepath.Join(dir, "run"))
	}
	if err != nil {
		return HostError("cannot remove the record of a run that was never started", err)
	}
	return strip(filepath.Join(dir, "run"), "claim")
}

// strip removes everything from the directory but the files named.
func strip(dir string, keep ...string) error {
	entries, err := agentfile.ReadDir(dir)
	if err != nil {
		return HostError("cannot archive the run", err)
	}
	for _, e := range entries {
		if !slices.Contains(keep, e.Name()) {
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				return HostError("cannot archive the run", err)
			}
		}
	}
	return nil
}

// underWay reports whether the run was started and has not ended.
func underWay(run shim.Run) (bool, error) {
	if given, err := settleClaim(run); err != nil || !given {
		return false, err
	}
	e, err := run.Settle()
	return e == nil, err
}

// prepare makes the directory of the run, as a whole or not at all, and returns the environment of its program.
func (host *Host) prepare(w Work, r fleet.Run, h Home) ([]string, error) {
	run := h.run(r.TaskID)
	job := w.Job
	job.TaskID, job.Prompt, job.Report = r.TaskID, r.Prompt, r.Report
	job.RunDir, job.Helper = string(run), host.config.ACPCommand
	job.Session, job.Since, job.Lost = h.conversation(w.Driver, r)
	asks := askSpec(w, host.config.AskCommand)
	if asks != nil {
		job.Ask = append(slices.Clone(host.config.AskCommand), string(run))
	}
	job.Feedback, job.Confined = r.Feedback, w.Sandbox != nil
	job = driver.WithFeedback(w.Driver, job)
	c, err := w.Driver.Command(job)
	if err != nil {
		return nil, err
	}
	own := map[string]string{
		"FLEET_RUN_DIR": run.Path(shim.FilesDir), "FLEET_TASK_ID": r.TaskID, "FLEET_AGENT": job.Agent, "FLEET_PROJECT": job.Project, "FLEET_ROLE": job.Role.Name,
		"FLEET_PROMPT_FILE": run.Path(driver.PromptFile), "FLEET_SPEC_FILE": run.Path(driver.SpecFile), "FLEET_ROLE_FILE": run.Path(driver.RoleFile),
		"FLEET_SUMMARY": run.Path(summaryFile), "FLEET_PAYLOAD": run.Path(payloadFile),
	}
	if c.Messages && !c.MessagesJSON {
		own["FLEET_MESSAGES"] = fmt.Sprintf("/dev/fd/%d", shim.MessagesFD)
	}
	for k, v := range c.Env {
		own[k] = v
	}
	files := append(driver.BaseFiles(job), c.Files...)
	if asks != nil {
		own["FLEET_ASK"] = run.Path(askFile)
		files = append(files, askScript(job.Ask))
	}
	if job.Feedback != "" {
		own["FLEET_FEEDBACK_FILE"] = run.Path(driver.FeedbackFile)
		files = append(files, driver.File{Name: driver.FeedbackFile, Data: job.Feedback})
	}
	if r.Report != nil {
		// For programs that do not speak MCP; the token itself is in no environment.
		own["FLEET_REPORT_URL"], own["FLEET_REPORT_TOKEN_FILE"] = r.Report.URL, run.Path(reportFile)
		files = append(files, driver.File{Name: reportFile, Data: r.Report.Token, Secret: true})
	}
	env := w.environ(own)
	c.Format.Lost, c.Format.Record = job.Lost, recordPattern(w, env)
	spec := shim.Spec{
		Argv: c.Argv, Dir: w.Dir, Timeout: r.Timeout, Grace: host.config.StopGrace, MaxOutput: host.config.MaxOutput, RawOutput: host.config.OutputMax,
		SplitStderr: c.SplitStderr, StdinFile: c.StdinFile, Messages: c.Messages, MessagesJSON: c.MessagesJSON, Log: h.path("log"), Mark: shim.Mark(run), Name: r.TaskID,
		Requests: c.Requests, Asks: asks,
	}
	if w.Timeout > 0 && (spec.Timeout <= 0 || w.Timeout < spec.Timeout) {
		spec.Timeout = w.Timeout
	}
	spec.Program = c.Argv[0]
	if filepath.Dir(spec.Program) != string(run) { // a script of the run's own is not there yet
		if spec.Program, err = Find(c.Argv[0], env, w.Dir); err != nil {
			return nil, err
		}
	}
	if w.Sandbox != nil {
		spec.Sandbox = confined(*w.Sandbox, run, spec.Program, c.Starts, job.Role.MCPServers, env)
		if asks != nil {
			spec.Sandbox.Write = append(spec.Sandbox.Write, run.Path(ask.Dir))
			spec.Sandbox.Read = append(spec.Sandbox.Read, installed(job.Ask[0])...)
		}
	}
	for _, f := range files {
		if f.Secret {
			spec.Secrets = append(spec.Secrets, f.Name)
		}
	}
	return env, host.lay(h, run, map[string]any{specFile: spec, formatFile: c.Format}, files)
}

// lay makes the directory of a run with the files in it, and with what is described as JSON.
func (host *Host) lay(h Home, run shim.Run, described map[string]any, files []driver.File) error {
	for name, data := range shim.Spares() {
		files = append(files, driver.File{Name: name, Data: data})
	}
	for name, v := range described {
		data, err := json.Marshal(v)
		if err != nil {
			return err
		}
		files = append(files, driver.File{Name: name, Data: string(data)})
	}
	if err := h.sweep(); err != nil {
		return HostError("cannot clean up the directory of runs", err)
	}
	if err := h.place(run, files); err != nil {
		return HostError("cannot create the run's directory", err)
	}
	return nil
}

// place makes the run's directory with the files in it.
func (h Home) place(run shim.Run, files []driver.File) error {
	tmp, err := os.MkdirTemp(h.path("runs"), newPrefix+"*")
	if err != nil {
		return err
	}
	for _, dir := range []string{shim.FilesDir, ask.Dir} {
		if err := os.Mkdir(filepath.Join(tmp, dir), 0o700); err != nil {
			return err
		}
	}
	for _, f := range files {
		mode := os.FileMode(0o600)
		if f.Executable {
			mode = 0o700
		}
		if err := os.WriteFile(filepath.Join(tmp, f.Name), []byte(f.Data), mode); err != nil {
			return errors.Join(err, os.RemoveAll(tmp))
		}
	}
	// Said before it is so, since what is said to be active and is not there does no harm.
	if err := shim.WriteFile(h.path("active"), []byte(filepath.Base(string(run))), 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, string(run))
}

// launch starts a shim on the run and returns when that has started the program.
func (host *Host) launch(ctx context.Context, agent string, h Home, run shim.Run, env []string) error {
	hands, err := host.spawn(run, env)
	if err != nil {
		discard(run)
		return HostError("cannot start the run's supervisor", err)
	}
	defer func() { _ = hands.Close() }()
	_ = hands.SetReadDeadline(time.Now().Add(startTime))
	defer context.AfterFunc(ctx, func() { _ = hands.SetReadDeadline(time.Unix(1, 0)) })()

	var said shim.Handshake
	err = json.NewDecoder(hands).Decode(&said)
	switch {
	case err == nil && said.Error != "":
		discard(run)
		return fleet.Errorf(fleet.ReasonProvisioningFailed, "the program cannot be started: %s", said.Error)
	case err != nil && ctx.Err() != nil:
		return ctx.Err() // the next call finds out how far it came
	case err != nil:
		// The shim ended without a word, or takes too long.
		given, serr := settleClaim(run)
		if serr != nil {
			return serr
		}
		if !given {
			why := "it did not answer"
			if errors.Is(err, io.EOF) {
				why = "it ended at once"
			}
			return fleet.Errorf(fleet.ReasonBackendUnavailable, "the run's supervisor could not be started: %s", why).WithCause(err)
		}
	}
	h.log("run %s started", filepath.Base(string(run)))
	host.config.Logger.DebugContext(ctx, "run started", "agent", agent, "task", filepath.Base(string(run)))
	return nil
}

// discard puts away a run that was not started. Not being able to is no reason to fail more than it did.
func discard(run shim.Run) { _, _ = settleClaim(run) }

// spawn starts the shim, and returns where it will say how that went.
func (host *Host) spawn(run shim.Run, env []string) (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = w.Close() }()
	own, err := agentfile.Create(run.Path("shim.log"))
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	defer func() { _ = own.Close() }()
	cmd := exec.Command(host.config.ShimCommand[0], append(append([]string{}, host.config.ShimCommand[1:]...), string(run))...)
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = env, string(run), own, own, []*os.File{w}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // out of reach of what is meant for the server
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", strings.Join(host.config.ShimCommand, " "), err), r.Close())
	}
	pid := cmd.Process.Pid
	_ = cmd.Process.Release()
	host.reaper.add(pid)
	return r, nil
}
