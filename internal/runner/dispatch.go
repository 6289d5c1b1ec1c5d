package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"fleet/internal/fleet"
	"fleet/internal/runner/driver"
	"fleet/internal/runner/question"
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
	if c.ReadsMessages && !c.ConfirmsMessages {
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
		SplitStderr: c.SplitStderr, StdinFile: c.StdinFile, ReadsMessages: c.ReadsMessages, ConfirmsMessages: c.ConfirmsMessages, Log: h.path("log"), Mark: shim.Mark(run), Name: r.TaskID,
		ReportsRequests: c.ReportsRequests, EndsOnSIGTERM: c.EndsOnSIGTERM, Questions: asks,
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
			spec.SecretFiles = append(spec.SecretFiles, f.Name)
		}
	}
	return env, host.createRun(h, run, map[string]any{specFile: spec, formatFile: c.Format}, files)
}
