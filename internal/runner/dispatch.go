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

// attachmentsDir is the directory of a run with the attachments of its task. The program cannot write there, so the supervisor can
// remove the files safely.
const attachmentsDir = "attachments"

// reportTokenFile holds the token that authenticates a run's reports to Fleet.
const reportTokenFile = "report-token"

// Files that a program writes its result to.
const (
	summaryFile = shim.FilesDir + "/summary"
	payloadFile = shim.FilesDir + "/payload"
)

// Dispatch implements fleet.Runner. The run belongs to the agent from the moment a supervisor has claimed it. Until then, a
// repeated call first makes sure that the supervisor of an earlier call will never claim it.
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
	if err := a.requireFree(FileName(r.TaskID)); err != nil {
		return err
	}
	work, err := a.ws.Work(r)
	if err != nil {
		return err
	}
	if err := driver.CheckOptions(work.Driver, r.Options); err != nil { // the place may not know the driver, or it has changed
		return err
	}
	work.Job = work.Job.WithOptions(r.Options)
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

// requireFree returns AGENT_BUSY if the agent works on a run or a check other than the one with the name.
func (a Agent) requireFree(name string) error {
	id := a.home.readText("active")
	if id == "" || id == name {
		return nil
	}
	busy, err := isActive(shim.Run(a.home.path("runs", id)))
	if err != nil {
		return HostError("cannot read the agent's last run", err)
	}
	if busy {
		task, _, _ := strings.Cut(id, checkSeparator)
		return fleet.Errorf(fleet.ReasonAgentBusy, "the agent %q is busy with the task %s", a.name, task).With("task_id", task)
	}
	return nil
}

// prepare creates the directory of the run atomically, and returns the environment of its program.
func (host *Host) prepare(w Work, r fleet.Run, h Home) ([]string, error) {
	if err := fleet.CheckAttachments(r.Attachments); err != nil { // their names become paths
		return nil, err
	}
	run, questions := h.run(r.TaskID), questionConfig(w, r)
	job := host.job(w, r, h, questions != nil)
	start := w.Driver.Command
	if r.Options.Attached != nil {
		start = func(j driver.Job) (driver.Command, error) { return driver.TerminalCommand(w.Driver, j) }
	}
	c, err := start(job)
	if err != nil {
		return nil, err
	}
	files, err := runFiles(r, job, c)
	if err != nil {
		return nil, err
	}
	env := w.environ(taskVariables(r, job, c))
	c.Format.LostReason, c.Format.ConversationPattern, c.Format.Conversation = job.LostReason, recordPattern(w, env), r.Conversation
	spec := shim.Spec{
		Argv: c.Argv, Dir: w.Dir, Timeout: r.Timeout, Grace: host.config.StopGrace, MaxOutput: host.config.MaxPayloadOutput, MaxRawOutput: host.config.MaxRawOutput,
		SplitStderr: c.SplitStderr, StdinFile: c.StdinFile, ReadsMessages: c.ReadsMessages, ConfirmsMessages: c.ConfirmsMessages, Log: h.path("log"), Mark: shim.Mark(run), Name: r.TaskID,
		ReportsRequests: c.ReportsRequests, EndsOnSIGTERM: c.EndsOnSIGTERM, Questions: questions, Program: c.Argv[0],
	}
	if t := r.Options.Attached; t != nil {
		spec.Terminal = &shim.TerminalSize{Columns: t.Columns, Rows: t.Rows}
	}
	if w.Timeout > 0 && (spec.Timeout <= 0 || w.Timeout < spec.Timeout) {
		spec.Timeout = w.Timeout
	}
	if filepath.Dir(spec.Program) != string(run) { // a script of the run itself does not exist yet
		if spec.Program, err = FindProgram(c.Argv[0], env, w.Dir); err != nil {
			return nil, err
		}
	}
	if w.Sandbox != nil {
		spec.Sandbox = confinedPolicy(*w.Sandbox, run, spec.Program, c.AgentProgram, job.Role.MCPServers, env)
		if questions != nil {
			spec.Sandbox.Write = append(spec.Sandbox.Write, run.Path(question.AsksDir))
			spec.Sandbox.Read = append(spec.Sandbox.Read, programPaths(job.AskCommand[0])...)
		}
	}
	for _, f := range files {
		if f.Secret {
			spec.SecretFiles = append(spec.SecretFiles, f.Name)
		}
	}
	return env, host.createRun(h, run, map[string]any{specFile: spec, formatFile: c.Format}, files)
}

// job returns the driver's job for the run. asks means that the run can ask questions.
func (host *Host) job(w Work, r fleet.Run, h Home, asks bool) driver.Job {
	run, j := h.run(r.TaskID), w.Job
	j.TaskID, j.Prompt, j.Report = r.TaskID, r.Prompt, r.FleetEndpoint
	j.RunDir, j.ClientCommand = string(run), []string{host.config.Program, clientCommand}
	j.Session, j.SessionUsedAt, j.LostReason = h.conversation(w.Driver, r)
	j.Feedback, j.Brief, j.Confined = r.Feedback, r.Brief, w.Sandbox != nil
	if asks {
		j.AskCommand = []string{host.config.Program, askCommand, string(run)}
	}
	for _, a := range r.Attachments {
		j.Attachments = append(j.Attachments, driver.Attachment{Path: run.Path(attachmentsDir + "/" + a.Name), MediaType: a.MediaType, Size: len(a.Content)})
	}
	return driver.WithAttachments(w.Driver, driver.WithFeedback(w.Driver, j))
}

// taskVariables returns the variables that describe the task to its program.
func taskVariables(r fleet.Run, j driver.Job, c driver.Command) map[string]string {
	run := shim.Run(j.RunDir)
	variables := map[string]string{
		"FLEET_RUN_DIR": run.Path(shim.FilesDir), "FLEET_TASK_ID": r.TaskID, "FLEET_AGENT": j.Agent, "FLEET_PROJECT": j.Project, "FLEET_ROLE": j.Role.Name,
		"FLEET_PROMPT_FILE": run.Path(driver.PromptFile), "FLEET_SPEC_FILE": run.Path(driver.SpecFile), "FLEET_ROLE_FILE": run.Path(driver.RoleFile),
		"FLEET_SUMMARY": run.Path(summaryFile), "FLEET_PAYLOAD": run.Path(payloadFile),
	}
	if c.ReadsMessages && !c.ConfirmsMessages {
		variables["FLEET_MESSAGES"] = fmt.Sprintf("/dev/fd/%d", shim.MessagesFD)
	}
	maps.Copy(variables, c.Env)
	if t := r.Options.Attached; t != nil {
		variables["TERM"] = t.Type
	}
	if len(j.Attachments) > 0 {
		variables["FLEET_ATTACHMENTS"] = run.Path(attachmentsDir)
	}
	if len(j.AskCommand) > 0 {
		variables["FLEET_ASK"] = run.Path(askFile)
	}
	if j.Feedback != "" {
		variables["FLEET_FEEDBACK_FILE"] = run.Path(driver.FeedbackFile)
	}
	if r.FleetEndpoint != nil {
		// Programs that do not support MCP use these variables. The token itself is never in the environment.
		variables["FLEET_REPORT_URL"], variables["FLEET_REPORT_TOKEN_FILE"] = r.FleetEndpoint.URL, run.Path(reportTokenFile)
	}
	return variables
}

// runFiles returns the files that the run's program can read.
func runFiles(r fleet.Run, j driver.Job, c driver.Command) (files []driver.File, err error) {
	for _, a := range r.Attachments {
		files = append(files, driver.File{Name: attachmentsDir + "/" + a.Name, Data: string(a.Content), Secret: true})
	}
	files = slices.Concat(files, driver.BaseFiles(j), c.Files)
	if len(j.AskCommand) > 0 {
		files = append(files, askScript(j.AskCommand))
	}
	if j.Feedback != "" {
		files = append(files, driver.File{Name: driver.FeedbackFile, Data: j.Feedback})
	}
	if r.FleetEndpoint != nil {
		files = append(files, driver.File{Name: reportTokenFile, Data: r.FleetEndpoint.Token, Secret: true})
	}
	if r.Allowance == (fleet.Amount{}) {
		return files, nil
	}
	data, err := json.Marshal(r.Allowance)
	return append(files, driver.File{Name: driver.AllowanceFile, Data: string(data)}), err
}
