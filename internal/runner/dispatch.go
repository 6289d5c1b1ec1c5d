package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"fleet/internal/fleet"
	"fleet/internal/place/agentfile"
	"fleet/internal/runner/driver"
	"fleet/internal/runner/question"
	"fleet/internal/runner/sandbox"
	"fleet/internal/runner/shim"
)

// Files of a run that describe it.
const (
	specFile   = "run.json"
	formatFile = "format.json"
)

// attachmentsDir is the directory of a run with the attachments of its task. The program can only read it, so the supervisor can remove
// the files safely.
const attachmentsDir = "attachments"

// reportFile holds the token that authenticates a run's reports to Fleet.
const reportFile = "report-token"

// Files that a program writes its result to.
const (
	summaryFile = shim.FilesDir + "/summary"
	payloadFile = shim.FilesDir + "/payload"
)

// Dispatch implements fleet.Runner. The run belongs to the agent from the moment a shim has claimed it. Until then, a
// repeated call first makes sure that the shim of an earlier call will never claim it.
func (a Agent) Dispatch(ctx context.Context, r fleet.Run) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	h := a.home
	run := h.run(r.TaskID)
	if claimed, err := settleUnclaimed(run); err != nil || claimed {
		return err
	}
	if err := a.ws.Ready(); err != nil {
		return err
	}
	if err := a.checkFree(FileName(r.TaskID)); err != nil {
		return err
	}
	work, err := a.ws.Work(r)
	if err != nil {
		return err
	}
	if err := driver.CheckOptions(work.Driver, r.Options); err != nil { // the place may not know the driver, or it has changed
		return err
	}
	work.Job = work.Job.With(r.Options)
	env, err := a.host.prepare(work, r, h)
	if err != nil {
		return err
	}
	a.recordBase(ctx, r)
	if err := ctx.Err(); err != nil {
		return err // the next call records the start of the run
	}
	return a.host.launch(ctx, a.name, h, run, env)
}

// checkFree returns AGENT_BUSY if the agent works on a run other than name.
func (a Agent) checkFree(name string) error {
	id := a.home.readText("active")
	if id == "" || id == name {
		return nil
	}
	busy, err := isActive(shim.Run(a.home.path("runs", id)))
	if err != nil {
		return HostError("cannot read the agent's last run", err)
	}
	if busy {
		task, _, _ := strings.Cut(id, checkMark)
		return fleet.Errorf(fleet.ReasonAgentBusy, "the agent %q is busy with the task %s", a.name, task).With("task_id", task)
	}
	return nil
}

// settleUnclaimed reports whether a shim has claimed the run. If no shim has, settleUnclaimed prevents later claims and
// removes the run's files.
func settleUnclaimed(run shim.Run) (claimed bool, err error) {
	if _, err := os.Stat(string(run)); isMissing(err) {
		return false, nil
	}
	void, err := run.Void()
	if errors.Is(err, agentfile.ErrReplaced) { // the run was claimed, and the agent has replaced the claim's file
		return true, nil
	}
	if isMissing(err) { // the agent was deleted meanwhile
		return false, nil
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
	return false, archiveUnstarted(run)
}

// isMissing reports whether err means that a path does not exist. That is also the case if the agent has replaced a
// directory of the path by a file.
func isMissing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// archiveUnstarted moves away the directory of a run that was never started. It removes all files but the claim, which
// a late shim may still check.
func archiveUnstarted(run shim.Run) error {
	dir, err := os.MkdirTemp(filepath.Dir(string(run)), voidPrefix+"*")
	if err == nil {
		err = os.Rename(string(run), filepath.Join(dir, "run"))
	}
	if err != nil {
		return HostError("cannot remove the record of a run that was never started", err)
	}
	return removeExcept(filepath.Join(dir, "run"), "claim")
}

// removeExcept removes all files of the directory except the files named in keep.
func removeExcept(dir string, keep ...string) error {
	entries, err := agentfile.ReadDir(dir)
	if err != nil {
		return HostError("cannot archive the run", err)
	}
	for _, e := range entries {
		if !slices.Contains(keep, e.Name()) {
			if err := sandbox.Remove(context.Background(), filepath.Join(dir, e.Name())); err != nil {
				return HostError("cannot archive the run", err)
			}
		}
	}
	return nil
}

// isActive reports whether the run has started and has not ended. A run that no shim has claimed can never start after
// that.
func isActive(run shim.Run) (bool, error) {
	if claimed, err := settleUnclaimed(run); err != nil || !claimed {
		return false, err
	}
	e, err := run.Settle()
	return e == nil, err
}

// prepare creates the directory of the run atomically, and returns the environment of its program.
func (host *Host) prepare(w Work, r fleet.Run, h Home) ([]string, error) {
	run := h.run(r.TaskID)
	job := w.Job
	job.TaskID, job.Prompt, job.Report = r.TaskID, r.Prompt, r.Report
	job.RunDir, job.Client = string(run), []string{host.config.Program, clientCommand}
	job.Session, job.Since, job.Lost = h.conversation(w.Driver, r)
	terminal := r.Options.Attached
	asks := askSpec(w, r)
	if asks != nil {
		job.Ask = []string{host.config.Program, askCommand, string(run)}
	}
	job.Feedback, job.Brief, job.Confined = r.Feedback, r.Brief, w.Sandbox != nil
	if err := fleet.CheckAttachments(r.Attachments); err != nil { // their names become paths
		return nil, err
	}
	var files []driver.File
	for _, a := range r.Attachments {
		name := attachmentsDir + "/" + a.Name
		job.Attachments = append(job.Attachments, driver.Attachment{Path: run.Path(name), MediaType: a.MediaType, Size: len(a.Content)})
		files = append(files, driver.File{Name: name, Data: string(a.Content), Secret: true})
	}
	job = driver.WithAttachments(w.Driver, driver.WithFeedback(w.Driver, job))
	start := w.Driver.Command
	if terminal != nil {
		start = func(j driver.Job) (driver.Command, error) { return driver.Terminal(w.Driver, j) }
	}
	c, err := start(job)
	if err != nil {
		return nil, err
	}
	taskVariables := map[string]string{
		"FLEET_RUN_DIR": run.Path(shim.FilesDir), "FLEET_TASK_ID": r.TaskID, "FLEET_AGENT": job.Agent, "FLEET_PROJECT": job.Project, "FLEET_ROLE": job.Role.Name,
		"FLEET_PROMPT_FILE": run.Path(driver.PromptFile), "FLEET_SPEC_FILE": run.Path(driver.SpecFile), "FLEET_ROLE_FILE": run.Path(driver.RoleFile),
		"FLEET_SUMMARY": run.Path(summaryFile), "FLEET_PAYLOAD": run.Path(payloadFile),
	}
	if c.Messages && !c.Mailbox {
		taskVariables["FLEET_MESSAGES"] = fmt.Sprintf("/dev/fd/%d", shim.MessagesFD)
	}
	maps.Copy(taskVariables, c.Env)
	if terminal != nil {
		taskVariables["TERM"] = terminal.Type
	}
	if len(files) > 0 {
		taskVariables["FLEET_ATTACHMENTS"] = run.Path(attachmentsDir)
	}
	files = slices.Concat(files, driver.BaseFiles(job), c.Files)
	if asks != nil {
		taskVariables["FLEET_ASK"] = run.Path(askFile)
		files = append(files, askScript(job.Ask))
	}
	if job.Feedback != "" {
		taskVariables["FLEET_FEEDBACK_FILE"] = run.Path(driver.FeedbackFile)
		files = append(files, driver.File{Name: driver.FeedbackFile, Data: job.Feedback})
	}
	if r.Report != nil {
		// Programs that do not support MCP use these variables. The token itself is never in the environment.
		taskVariables["FLEET_REPORT_URL"], taskVariables["FLEET_REPORT_TOKEN_FILE"] = r.Report.URL, run.Path(reportFile)
		files = append(files, driver.File{Name: reportFile, Data: r.Report.Token, Secret: true})
	}
	if r.Allowance != (fleet.Amount{}) {
		data, err := json.Marshal(r.Allowance)
		if err != nil {
			return nil, err
		}
		files = append(files, driver.File{Name: driver.AllowanceFile, Data: string(data)})
	}
	env := w.environ(taskVariables)
	c.Format.Lost, c.Format.Record, c.Format.Conversation = job.Lost, recordPattern(w, env), r.Conversation
	spec := shim.Spec{
		Argv: c.Argv, Dir: w.Dir, Timeout: r.Timeout, Grace: host.config.StopGrace, MaxOutput: host.config.MaxPayloadOutput, RawOutput: host.config.MaxRawOutput,
		SplitStderr: c.SplitStderr, StdinFile: c.StdinFile, Messages: c.Messages, Mailbox: c.Mailbox, Log: h.path("log"), Mark: shim.Mark(run), Name: r.TaskID,
		Requests: c.Requests, Finishes: c.Finishes, Questions: asks,
	}
	if terminal != nil {
		spec.Terminal = &shim.Terminal{Columns: terminal.Columns, Rows: terminal.Rows}
	}
	if w.Timeout > 0 && (spec.Timeout <= 0 || w.Timeout < spec.Timeout) {
		spec.Timeout = w.Timeout
	}
	spec.Program = c.Argv[0]
	if filepath.Dir(spec.Program) != string(run) { // a script of the run itself does not exist yet
		if spec.Program, err = FindProgram(c.Argv[0], env, w.Dir); err != nil {
			return nil, err
		}
	}
	if w.Sandbox != nil {
		spec.Sandbox = confinedPolicy(*w.Sandbox, run, spec.Program, c.Starts, job.Role.MCPServers, env)
		if asks != nil {
			spec.Sandbox.Write = append(spec.Sandbox.Write, run.Path(question.Dir))
			spec.Sandbox.Read = append(spec.Sandbox.Read, installDirs(job.Ask[0])...)
		}
	}
	for _, f := range files {
		if f.Secret {
			spec.Secrets = append(spec.Secrets, f.Name)
		}
	}
	return env, host.createRun(h, run, map[string]any{specFile: spec, formatFile: c.Format}, files)
}

// createRun creates the directory of a run with the files. It also writes each value of jsonFiles as JSON to the file
// that its key names.
func (host *Host) createRun(h Home, run shim.Run, jsonFiles map[string]any, files []driver.File) error {
	for name, data := range shim.ReserveFiles() {
		files = append(files, driver.File{Name: name, Data: data})
	}
	for name, v := range jsonFiles {
		data, err := json.Marshal(v)
		if err != nil {
			return err
		}
		files = append(files, driver.File{Name: name, Data: string(data)})
	}
	if err := h.sweep(); err != nil {
		return HostError("cannot clean up the directory of runs", err)
	}
	if err := h.writeRun(run, files); err != nil {
		return HostError("cannot create the run's directory", err)
	}
	return nil
}

// writeRun creates the run's directory with the files atomically.
func (h Home) writeRun(run shim.Run, files []driver.File) error {
	tmp, err := os.MkdirTemp(h.path("runs"), newPrefix+"*")
	if err != nil {
		return err
	}
	for _, dir := range []string{shim.FilesDir, question.Dir} {
		if err := os.Mkdir(filepath.Join(tmp, dir), 0o700); err != nil {
			return err
		}
	}
	for _, f := range files {
		mode := os.FileMode(0o600)
		if f.Executable {
			mode = 0o700
		}
		path := filepath.Join(tmp, f.Name)
		err := os.MkdirAll(filepath.Dir(path), 0o700)
		if err == nil {
			err = os.WriteFile(path, []byte(f.Data), mode)
		}
		if err != nil {
			return errors.Join(err, os.RemoveAll(tmp))
		}
	}
	// The file "active" is written before the run exists, because it does no harm if it names a missing run.
	if err := shim.WriteFile(h.path("active"), []byte(filepath.Base(string(run)))); err != nil {
		return err
	}
	return os.Rename(tmp, string(run))
}
