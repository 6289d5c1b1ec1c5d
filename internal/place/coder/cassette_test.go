package coder_test

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/place/coder"
)

// TestCassettes replays the answers of a real Coder deployment, with one cassette per case. With -record, it records
// the cassettes.
func TestCassettes(t *testing.T) {
	for name, c := range map[string]struct {
		test   func(*recordedPlace)
		config func(*coder.Config)
	}{
		"projects":                  {test: testProjects},
		"projects-configured":       {test: testProjectsConfigured, config: withNamedProjects},
		"roles":                     {test: testRoles},
		"roles-presets":             {test: testRolesOfPresets, config: withoutRoleParameter},
		"create":                    {test: testCreate},
		"create-name-taken":         {test: testCreateNameTaken},
		"create-name-other-case":    {test: testCreateNameOtherCase},
		"create-name-refused":       {test: testCreateLongName, config: withLongPrefix},
		"create-parameter-refused":  {test: testCreateParameterRefused, config: withRoleAsSpecParameter},
		"create-unknown-project":    {test: testCreateUnknownProject},
		"create-unknown-role":       {test: testCreateUnknownRole},
		"create-by-preset":          {test: testCreateByPreset, config: withoutRoleParameter},
		"create-after-crash":        {test: testCreateAfterCrash},
		"create-build-fails":        {test: testCreateBuildFails},
		"list":                      {test: testList},
		"list-none":                 {test: testListNone, config: withPrefix("nobody-")},
		"metadata":                  {test: testMetadata},
		"start":                     {test: testStart},
		"start-other-role":          {test: testStartOtherRole},
		"stop":                      {test: testStop},
		"stop-while-starting":       {test: testStopWhileStarting},
		"delete-missing":            {test: testDeleteMissing},
		"delete-busy":               {test: testDeleteBusy},
		"deleted-in-coder":          {test: testDeletedInCoder},
		"state-deleting":            {test: testStateDeleting},
		"stopped-in-coder":          {test: testStoppedInCoder},
		"state-pending-to-canceled": {test: testStatesOfHangingBuilds},
		"state-unhealthy":           {test: testStateUnhealthy},
		"task-completes":            {test: testTaskCompletes},
		"task-reports-complete":     {test: testTaskReportsComplete},
		"task-fails":                {test: testTaskFails},
		"task-again":                {test: testTaskAgain},
		"task-busy":                 {test: testTaskBusy},
		"task-offline":              {test: testTaskOffline},
		"task-never-given":          {test: testTaskNeverDispatched},
		"task-first-with-spec":      {test: testTaskWithSpec, config: withoutSpecParameter},
		"task-of-its-own":           {test: testSelfStartedTask},
		"task-of-its-own-fails":     {test: testSelfStartedTaskNotBegun, config: withSpecIsTask},
		"interrupt":                 {test: testInterrupt},
		"interrupt-by-force":        {test: testInterruptByForce},
		"interrupt-idle":            {test: testInterruptIdle},
		"message-to-busy-agent":     {test: testMessageToBusyAgent},
		"message-of-another-server": {test: testMessageOfAnotherServer},
		"message-too-late":          {test: testMessageTooLate},
		"runner-create":             {test: testRunnerCreate},
		"runner-completes":          {test: testRunnerCompletes},
		"runner-fails":              {test: testRunnerFails},
		"runner-works":              {test: testRunnerWorks},
		"runner-message":            {test: testRunnerMessage},
		"runner-interrupt":          {test: testRunnerInterrupt},
		"runner-busy":               {test: testRunnerBusy},
		"runner-never-given":        {test: testRunnerNeverDispatched},
		"runner-changes":            {test: testRunnerChanges},
		"runner-lands":              {test: testRunnerLands},
		"runner-crashed":            {test: testRunnerCrashed},
		"runner-stopped":            {test: testRunnerStopped},
		"runner-other-key":          {test: testRunnerOtherKey},
		"log":                       {test: testReadLog},
		"token-refused":             {test: testTokenRefused, config: withInvalidToken},
		"workspace-not-to-be-seen":  {test: testHiddenWorkspace},
		"other-users-agent":         {test: testAgentOfOtherUser, config: withAdminToken},
		"owner-principal":           {test: testOwnerPrincipal, config: withOwnerPrincipal},
		"owner-unknown":             {test: testOwnerUnknown, config: withOwnerPrincipal},
	} {
		t.Run(name, func(t *testing.T) {
			if !*record {
				t.Parallel()
			}
			c.test(newRecordedPlace(t, c.config))
		})
	}
}

func withNamedProjects(c *coder.Config) {
	c.Projects = map[string]coder.Project{"Platform": {Template: "dataone-devcontainer"}, "Odd": {Template: "plain"}}
}

func withoutRoleParameter(c *coder.Config) { c.RoleParameter = "no_such_parameter" }

func withLongPrefix(c *coder.Config) { c.Prefix = new("a-very-long-prefix-of-agents-") }

func withPrefix(p string) func(*coder.Config) { return func(c *coder.Config) { c.Prefix = &p } }

func withRoleAsSpecParameter(c *coder.Config) {
	c.SpecParameter, c.RoleParameter = "role", "no_such_parameter"
}

func withoutSpecParameter(c *coder.Config) { c.SpecParameter = "no_such_parameter" }

func withSpecIsTask(c *coder.Config) { c.SpecIsTask = new(true) }

func withInvalidToken(c *coder.Config) {
	c.Token = func(context.Context) (string, error) { return "0123456789-0123456789012345678901", nil }
}

func withAdminToken(c *coder.Config) {
	if *record {
		c.Token = func(context.Context) (string, error) { return os.Getenv("TESTBED_ADMIN_TOKEN"), nil }
	}
}

// withOwnerPrincipal makes workspaces belong to the owners of their agents. It needs an admin's token.
func withOwnerPrincipal(c *coder.Config) {
	withAdminToken(c)
	c.Owner, c.Prefix = coder.OwnerPrincipal, new("own-")
}

func testProjects(x *recordedPlace) {
	all := x.projects()
	names := map[string]fleet.Project{}
	for _, p := range all {
		names[p.Name] = p
		x.NotEmpty(p.TemplateID)
	}
	x.Equal("setup-devcontainer", names["Setup"].TemplateName)
	x.Equal("Setup", names["Setup"].DisplayName)
	x.Equal("Infrastructure and tooling monorepo", names["Setup"].Description)
	x.Contains(names, "DataOne")
	x.NotContains(names, "Plain", "a template that cannot host agents must not be a project")
	x.True(names["Setup"].Matches("SETUP-devcontainer"))
}

func testProjectsConfigured(x *recordedPlace) {
	all := x.projects()
	var names []string
	for _, p := range all {
		names = append(names, p.Name)
		if p.Name == "Platform" {
			x.Equal("dataone-devcontainer", p.TemplateName)
			x.Equal("DataOne", p.DisplayName)
		}
	}
	x.Subset(names, []string{"Odd", "Platform", "Setup"})
	x.NotContains(names, "DataOne")
	only, err := x.place.Roles(x.ctx, "Odd")
	x.NoError(err)
	x.Len(only, 1)
	x.Equal("coder", only[0].Name)
}

func testRoles(x *recordedPlace) {
	all, err := x.place.Roles(x.ctx, "Setup")
	x.NoError(err)
	x.Equal([]fleet.Role{
		{Name: "coder", DisplayName: "Software Engineer", Description: "Writes code, implements features, fixes bugs", Default: true},
		{Name: "operator", DisplayName: "Operations Engineer", Description: "Manages deployments, monitors systems, handles incidents"},
		{Name: "manager", DisplayName: "Engineering Manager", Description: "Coordinates work, reviews specs, verifies agent alignment"},
	}, all)
	_, err = x.place.Roles(x.ctx, "no-such-project")
	x.Contains(x.requireReason(err, fleet.ReasonProjectNotFound).Message, "DataOne")
	_, err = x.place.Roles(x.ctx, "plain")
	x.requireReason(err, fleet.ReasonProjectNotFound)
}

func testRolesOfPresets(x *recordedPlace) {
	all, err := x.place.Roles(x.ctx, "Setup")
	x.NoError(err)
	x.Len(all, 3)
	x.Equal("Engineering Manager", all[0].Name)
	x.Equal("Software Engineer", all[2].Name)
	x.True(all[2].Default, "the default preset in Coder must be the default role")
}

func testCreate(x *recordedPlace) {
	a := x.agent("create")
	a.Role = "Manager" // the role is written "manager" in Coder
	w := x.provision(a)
	x.NotEmpty(w.ID)
	x.True(w.State.Moving(), w.State)
	a.WorkspaceID = w.ID
	w = x.await(a, fleet.StateRunning)
	x.Equal("bob", w.Owner)
	x.True(strings.HasSuffix(w.Location, "/@bob/agent-cas-create"), w.Location)
	x.Equal(map[string]string{"fleet_mcp_agent_spec": a.Spec}, w.Metadata)
	x.delete(a)
	w = x.inspect(a)
	x.Equal(fleet.StateDeleted, w.State)
}

// afterRecordings is a time after any recording.
var afterRecordings = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)

func testCreateNameTaken(x *recordedPlace) {
	a := x.readyAgent("taken")
	a.UID, a.CreatedAt = "another", afterRecordings
	_, err := x.place.Provision(x.ctx, a)
	x.Equal("name", x.requireReason(err, fleet.ReasonAgentExists).Metadata["field"])
	kept, err := x.place.Delete(x.ctx, a)
	x.NoError(err)
	x.Empty(kept)
	x.ifRecording(func() { x.awaitLive(x.agent("taken"), fleet.StateRunning) })
}

func testCreateNameOtherCase(x *recordedPlace) {
	a := x.readyAgent("case")
	a.UID, a.Name, a.CreatedAt = "another", "CAS-Case", afterRecordings
	_, err := x.place.Provision(x.ctx, a)
	x.requireReason(err, fleet.ReasonAgentExists)
}

func testCreateLongName(x *recordedPlace) {
	_, err := x.place.Provision(x.ctx, x.agent("much-too-long"))
	x.Equal("name", x.requireReason(err, fleet.ReasonInvalidName).Field)
}

func testCreateParameterRefused(x *recordedPlace) {
	a := x.agent("refused")
	a.Role = "Software Engineer"
	_, err := x.place.Provision(x.ctx, a)
	e := x.requireReason(err, fleet.ReasonInvalidArgument)
	x.Equal("spec", e.Field)
	x.Contains(e.Message, "role", "the message must have the name that the parameter has in Coder")
}

func testCreateUnknownProject(x *recordedPlace) {
	a := x.agent("lost")
	a.Project = "plain"
	_, err := x.place.Provision(x.ctx, a)
	x.Contains(x.requireReason(err, fleet.ReasonProvisioningFailed).Message, "Setup")
}

func testCreateUnknownRole(x *recordedPlace) {
	a := x.agent("pilot")
	a.Role = "pilot"
	_, err := x.place.Provision(x.ctx, a)
	x.Contains(x.requireReason(err, fleet.ReasonRoleNotFound).Message, "coder, operator, manager")
}

func testCreateByPreset(x *recordedPlace) {
	a := x.agent("preset")
	a.Role = "operations engineer"
	w := x.provision(a)
	x.NotEmpty(w.ID)
	x.place.ForgetTemplates() // the clock of a replay differs from the clock of the recording
	all := x.list()
	x.Equal("Operations Engineer", requireListed(x, all, "cas-preset").Role)
}

func testCreateAfterCrash(x *recordedPlace) {
	a := x.readyAgent("crash")
	w := x.provision(a)
	x.Equal(fleet.StateRunning, w.State)
	again := x.provision(a)
	x.Equal(w.ID, again.ID)
}

func testCreateBuildFails(x *recordedPlace) {
	a := x.agentOf(x.projectOfTemplate("fail-echo"), "fails")
	w := x.provision(a)
	a.WorkspaceID = w.ID
	w = x.await(a, fleet.StateFailed)
	x.Contains(w.Reason, "the build to start it failed: ")
	lines, _, err := x.place.Log(x.ctx, a, 5)
	x.NoError(err)
	x.Contains(lines[len(lines)-1], "error: ")
	x.NoError(x.place.Stop(x.ctx, a))
	x.delete(a)
}

// projectOfTemplate returns the name of the template's project.
func (x *recordedPlace) projectOfTemplate(template string) string {
	all := x.projects()
	for _, p := range all {
		if p.TemplateName == template {
			return p.Name
		}
	}
	x.FailNow("no project", template)
	return ""
}

// requireListed returns the workspace with the name. It fails the test if the list does not have one.
func requireListed(x *recordedPlace, all []fleet.Workspace, name string) fleet.Workspace {
	for _, w := range all {
		if w.Name == name {
			return w
		}
	}
	x.FailNow("not listed", "%s in %v", name, all)
	return fleet.Workspace{}
}

func testList(x *recordedPlace) {
	running := x.readyAgent("one")
	stopped := x.agent("two")
	x.ifRecording(func() {
		stopped.Role, stopped.Spec = "operator", "Keep it running."
		_, err := x.live.Provision(x.ctx, stopped)
		x.NoError(err)
		x.awaitLive(stopped, fleet.StateRunning)
		x.NoError(x.live.Stop(x.ctx, stopped))
		x.awaitLive(stopped, fleet.StateStopped)
	})
	all := x.list()
	w := requireListed(x, all, "cas-one")
	x.Equal(fleet.StateRunning, w.State, w.Reason)
	x.Equal("Setup", w.Project)
	x.Equal("coder", w.Role)
	x.Equal(running.Spec, w.Spec)
	x.Equal("local", w.Owner, "the owner must be the owner of the agent, not of the workspace")
	x.Empty(w.AgentUID)
	x.False(w.CreatedAt.IsZero())
	x.Equal(running.Spec, w.Metadata["fleet_mcp_agent_spec"])
	w = requireListed(x, all, "cas-two")
	x.Equal(fleet.StateStopped, w.State)
	x.Equal("operator", w.Role)
	x.Equal("Keep it running.", w.Spec)
	x.Nil(w.Metadata)
}

func testListNone(x *recordedPlace) {
	all := x.list()
	x.Empty(all)
}

func testMetadata(x *recordedPlace) {
	a := x.readyAgent("meta")
	x.ifRecording(func() {
		x.runScript("meta.sh", "bob/agent-cas-meta", "pull_request_url", "https://github.com/org/repo/pull/123")
		x.runScript("meta.sh", "bob/agent-cas-meta", "check_status", "passing")
		x.Eventually(func() bool { // Coder's agent updates the metadata every two seconds
			w, err := x.live.Inspect(x.ctx, a)
			return err == nil && len(w.Metadata) == 3
		}, time.Minute, time.Second)
	})
	w := x.inspect(a)
	x.Equal(map[string]string{
		"fleet_mcp_agent_spec":                a.Spec,
		"fleet_mcp_pull_request_url":          "https://github.com/org/repo/pull/123",
		"fleet_mcp_pull_request_check_status": "passing",
	}, w.Metadata)
}

// stoppedAgent returns an agent whose workspace is stopped.
func (x *recordedPlace) stoppedAgent(suffix string) fleet.Agent {
	a := x.readyAgent(suffix)
	x.ifRecording(func() {
		x.NoError(x.live.Stop(x.ctx, a))
		x.awaitLive(a, fleet.StateStopped)
	})
	return a
}

func testStart(x *recordedPlace) {
	a := x.stoppedAgent("start")
	w := x.inspect(a)
	x.Equal(fleet.StateStopped, w.State)
	x.NoError(x.place.Start(x.ctx, a))
	w = x.inspect(a)
	x.Contains([]fleet.State{fleet.StatePending, fleet.StateStarting}, w.State)
	x.NoError(x.place.Start(x.ctx, a), "Start must succeed while the workspace starts")
	x.await(a, fleet.StateRunning)
	x.NoError(x.place.Start(x.ctx, a), "Start must succeed if the workspace runs")
	x.Equal(fleet.StateRunning, x.await(a, fleet.StateRunning).State)
}

func testStartOtherRole(x *recordedPlace) {
	a := x.stoppedAgent("role")
	a.Role, a.Next.Role = "manager", true
	x.NoError(x.place.Start(x.ctx, a))
	x.place.ForgetTemplates()
	all := x.list()
	x.Equal("manager", requireListed(x, all, "cas-role").Role)
}

func testStop(x *recordedPlace) {
	a := x.readyAgent("stop")
	x.NoError(x.place.Stop(x.ctx, a))
	w := x.inspect(a)
	x.Contains([]fleet.State{fleet.StatePending, fleet.StateStopping}, w.State)
	x.await(a, fleet.StateStopped)
	x.NoError(x.place.Stop(x.ctx, a))
	x.NoError(x.place.Stop(x.ctx, x.agent("nobody")))
}

func testStopWhileStarting(x *recordedPlace) {
	a := x.agent("hasty")
	x.provision(a)
	x.NoError(x.place.Stop(x.ctx, a))
	x.await(a, fleet.StateStopped)
}

func testDeleteMissing(x *recordedPlace) {
	a := x.agent("nobody")
	x.delete(a)
	a.WorkspaceID = "11111111-2222-4333-8444-555555555555"
	kept, err := x.place.Delete(x.ctx, a)
	x.NoError(err)
	x.Contains(kept, "was not deleted")
	w := x.inspect(a)
	x.True(w.Missing, "a workspace that Coder does not show must be missing, not deleted: %+v", w)
}

func testDeleteBusy(x *recordedPlace) {
	a := x.readyAgent("busy-gone")
	r := newRun("sleep 60")
	x.NoError(x.place.Connect(a).Dispatch(x.ctx, r))
	x.delete(a)
	_, o := x.follow(a, r)
	x.Equal(fleet.TaskFailed, o.Status)
	x.Contains(o.Reason, "deleted")
	x.requireReason(x.place.Connect(a).Dispatch(x.ctx, newRun("echo too late")), fleet.ReasonAgentOffline)
}

func testDeletedInCoder(x *recordedPlace) {
	a := x.readyAgent("vanish")
	w := x.inspect(a)
	x.Equal(fleet.StateRunning, w.State)
	x.ifRecording(func() {
		_, err := x.live.Delete(x.ctx, a)
		x.NoError(err)
	})
	a.WorkspaceID = w.ID
	w = x.inspect(a)
	x.Equal(fleet.StateDeleted, w.State)
	x.NotEmpty(w.Reason)
}

// testStateDeleting inspects a workspace while Coder deletes it.
func testStateDeleting(x *recordedPlace) {
	a := x.readyAgent("going")
	w := x.inspect(a)
	a.WorkspaceID = w.ID
	x.ifRecording(func() {
		x.request(http.MethodPost, "/api/v2/workspaces/"+a.WorkspaceID+"/builds", `{"transition":"delete"}`)
		time.Sleep(600 * time.Millisecond) // until a provisioner has accepted it
	})
	w = x.inspect(a)
	x.Equal(fleet.StateDeleting, w.State, w.Reason)
	x.requireReason(x.place.Connect(a).Dispatch(x.ctx, newRun("echo too late")), fleet.ReasonAgentOffline)
	x.await(a, fleet.StateDeleted)
}

func testStoppedInCoder(x *recordedPlace) {
	a := x.readyAgent("halt")
	r := newRun("sleep 60")
	x.NoError(x.place.Connect(a).Dispatch(x.ctx, r))
	x.ifRecording(func() {
		x.NoError(x.live.Stop(x.ctx, a))
		x.awaitLive(a, fleet.StateStopped)
	})
	_, o := x.follow(a, r)
	x.Equal(fleet.TaskFailed, o.Status)
	x.Equal("its workspace was stopped", o.Reason)
}

// testStatesOfHangingBuilds starts more builds than Coder runs at the same time, so that the last build stays pending. Then it
// cancels the last and the first build.
func testStatesOfHangingBuilds(x *recordedPlace) {
	project := x.projectOfTemplate("hang-echo")
	var agents []fleet.Agent
	for _, suffix := range []string{"hang-1", "hang-2", "hang-3", "hang-4", "hang-5"} {
		a := x.agentOf(project, suffix)
		w := x.provision(a)
		a.WorkspaceID = w.ID
		agents = append(agents, a)
	}
	x.ifRecording(func() { time.Sleep(2 * time.Second) })
	w := x.inspect(agents[0])
	x.Equal(fleet.StateStarting, w.State, w.Reason)
	last := agents[len(agents)-1]
	w = x.inspect(last)
	x.Equal(fleet.StatePending, w.State, w.Reason)
	x.NotEmpty(w.Reason)
	cancel := func(a fleet.Agent) {
		x.ifRecording(func() {
			var ws struct {
				LatestBuild struct{ ID string } `json:"latest_build"`
			}
			x.NoError(json.Unmarshal([]byte(x.request(http.MethodGet, "/api/v2/workspaces/"+a.WorkspaceID, "")), &ws))
			x.request(http.MethodPatch, "/api/v2/workspacebuilds/"+ws.LatestBuild.ID+"/cancel", "")
		})
	}
	cancel(last)
	w = x.inspect(last)
	x.Equal(fleet.StateCanceled, w.State, w.Reason)
	cancel(agents[0])
	w = x.inspect(agents[0])
	x.Equal(fleet.StateCanceling, w.State, w.Reason)
	x.await(agents[0], fleet.StateFailed)
	for _, a := range agents {
		x.delete(a)
	}
}

func testStateUnhealthy(x *recordedPlace) {
	a := x.readyAgent("ill")
	x.await(a, fleet.StateRunning)
	x.ifRecording(func() { x.signal("agent-cas-ill", "agentapi.pid", syscall.SIGKILL) })
	w := x.inspect(a)
	x.Equal(fleet.StateUnhealthy, w.State)
	x.Equal("AgentAPI does not answer", w.Reason)
	x.ifRecording(func() {
		x.signal("agent-cas-ill", "agent.pid", syscall.SIGKILL)
		time.Sleep(2 * time.Second)
	})
	w = x.inspect(a)
	x.Equal(fleet.StateUnhealthy, w.State)
	x.Contains(w.Reason, "lost its connection")
}

// signal sends a signal to the process whose id is in the file of the workspace. The workspace belongs to the test bed's user bob.
func (x *recordedPlace) signal(workspace, file string, s syscall.Signal) {
	b, err := os.ReadFile(filepath.Join(os.Getenv("TESTBED_DIR"), "ws", "by-name", "bob", workspace, file))
	x.NoError(err)
	var pid int
	x.NoError(json.Unmarshal([]byte(strings.Fields(string(b))[0]), &pid))
	x.NoError(syscall.Kill(pid, s))
}

// newRun returns a run without a time limit, and with a start time before that of any recording.
func newRun(prompt string) fleet.Run {
	return fleet.Run{TaskID: "task-" + strings.ReplaceAll(prompt, " ", "-"), Prompt: prompt, StartedAt: time.Unix(1, 0)}
}

// follow follows the run from its start to its end.
func (x *recordedPlace) follow(a fleet.Agent, r fleet.Run) (string, fleet.Outcome) {
	var text strings.Builder
	o, err := x.place.Connect(a).Follow(x.ctx, r, "", func(out fleet.Output) error {
		x.NotEmpty(out.Cursor)
		x.Equal(a.Project != "Runner", out.Terminal)
		if !out.IsStep {
			text.WriteString(out.Text)
		}
		return nil
	})
	x.NoError(err)
	return text.String(), o
}

func testTaskCompletes(x *recordedPlace) {
	a := x.readyAgent("works")
	r := newRun("explain the plan")
	text, o := x.runToEnd(a, r)
	x.Equal(fleet.Outcome{Status: fleet.TaskCompleted, Summary: "[coder] Handled: explain the plan", Payload: []byte("[coder] Handled: explain the plan"), Terminal: true}, o)
	x.Equal("[coder] Handled: explain the plan\n", text)
	again, same := x.follow(a, r)
	x.Equal(text, again)
	x.Equal(o, same)

	r = newRun("long")
	text, o = x.runToEnd(a, r)
	x.Equal(fleet.TaskCompleted, o.Status)
	x.True(strings.HasPrefix(text, "Here is the long answer.\n 1. step 1 of the plan"), text)
	x.True(strings.HasSuffix(text, "That was the long answer.\n"), text)
	x.NotContains(text, " \n")
}

func testTaskReportsComplete(x *recordedPlace) {
	a := x.readyAgent("report")
	r := newRun("done with the refactoring")
	x.NoError(x.place.Connect(a).Dispatch(x.ctx, r))
	x.ifRecording(func() { time.Sleep(8 * time.Second) }) // waits until the screen watcher has also reported "idle"
	_, o := x.follow(a, r)
	x.Equal(fleet.TaskCompleted, o.Status)
	x.Equal("[coder] Done: done with the refactoring", o.Summary)
}

func testTaskFails(x *recordedPlace) {
	a := x.readyAgent("unable")
	_, o := x.runToEnd(a, newRun("fail to compile"))
	x.Equal(fleet.TaskFailed, o.Status)
	x.Equal("the agent reported: failed: fail to compile", o.Reason)
	x.Equal("[coder] Failed: fail to compile", o.Summary)
}

func testTaskAgain(x *recordedPlace) {
	a := x.readyAgent("again")
	r := newRun("echo only once")
	for range 3 {
		x.NoError(x.place.Connect(a).Dispatch(x.ctx, r))
		r.Again = true
	}
	text, _ := x.follow(a, r)
	x.Equal("only once\n", text)
	x.NoError(x.place.Connect(a).Dispatch(x.ctx, r))
}

func testTaskBusy(x *recordedPlace) {
	a := x.readyAgent("busy")
	r := newRun("sleep 60")
	x.NoError(x.place.Connect(a).Dispatch(x.ctx, r))
	x.Equal(r.TaskID, x.requireReason(x.place.Connect(a).Dispatch(x.ctx, newRun("echo me too")), fleet.ReasonAgentBusy).Metadata["task_id"])
}

func testTaskOffline(x *recordedPlace) {
	a := x.stoppedAgent("off")
	r := newRun("echo hello")
	x.Equal("stopped", x.requireReason(x.place.Connect(a).Dispatch(x.ctx, r), fleet.ReasonAgentOffline).Metadata["state"])
	x.NoError(x.place.Connect(a).Interrupt(x.ctx, r, false))
	x.requireReason(x.place.Connect(a).Send(x.ctx, r, "m", "hello"), fleet.ReasonAgentOffline)
}

func testTaskNeverDispatched(x *recordedPlace) {
	a := x.readyAgent("never")
	r := newRun("echo what")
	r.StartedAt = afterRecordings
	_, err := x.place.Connect(a).Follow(x.ctx, r, "", func(fleet.Output) error { return nil })
	x.requireReason(err, fleet.ReasonTaskNotFound)
}

func testTaskWithSpec(x *recordedPlace) {
	a := x.readyAgent("spec")
	first, second := newRun("echo one"), newRun("echo two")
	_, o := x.runToEnd(a, first)
	x.Equal(fleet.TaskCompleted, o.Status)
	x.Contains(o.Summary, "Do as the tests say.")
	_, o = x.runToEnd(a, second)
	x.Equal("two", o.Summary)
}

// testSelfStartedTask creates an agent that starts its first task by itself, because its template passes the prompt to it.
func testSelfStartedTask(x *recordedPlace) {
	all, err := x.place.Roles(x.ctx, "Prompt first")
	x.NoError(err)
	x.Equal([]fleet.Role{
		{Name: "Coder", DisplayName: "Coder", Default: true, Parameters: map[string]string{"system_prompt": "You write code."}},
		{Name: "Operator", DisplayName: "Operator", Parameters: map[string]string{"system_prompt": "You keep it running."}},
	}, all)
	a := x.agentOf("Prompt first", "begins")
	a.Spec = "sleep 4 to begin with"
	r := newRun(a.Spec)
	r.SelfStarted = true
	w := x.provision(a)
	a.WorkspaceID = w.ID
	x.await(a, fleet.StateRunning)
	x.NoError(x.place.Connect(a).Dispatch(x.ctx, r))
	r.Again = true
	text, o := x.runToEnd(a, r)
	x.Equal(fleet.TaskCompleted, o.Status)
	x.Equal("[coder] Handled: sleep 4 to begin with", o.Summary)
	x.Contains(text, "Handled: sleep 4 to begin with")
	_, o = x.runToEnd(a, newRun("echo what next"))
	x.Equal("what next", o.Summary)
}

// testSelfStartedTaskNotBegun uses an agent that should start its first task by itself according to the configuration, but does not.
func testSelfStartedTaskNotBegun(x *recordedPlace) {
	a := x.readyAgent("rests")
	r := newRun(a.Spec)
	r.SelfStarted = true
	x.Contains(x.requireReason(x.place.Connect(a).Dispatch(x.ctx, r), fleet.ReasonTaskNotFound).Message, "spec_is_task")
	_, o := x.runToEnd(a, newRun("echo ready for that"))
	x.Equal("ready for that", o.Summary)
}

func testInterrupt(x *recordedPlace)        { x.checkInterrupt("esc", false) }
func testInterruptByForce(x *recordedPlace) { x.checkInterrupt("kill", true) }

func (x *recordedPlace) checkInterrupt(suffix string, kill bool) {
	a := x.readyAgent(suffix)
	r := newRun("sleep 60")
	x.NoError(x.place.Connect(a).Dispatch(x.ctx, r))
	x.NoError(x.place.Connect(a).Interrupt(x.ctx, r, kill))
	text, o := x.follow(a, r)
	x.Equal(fleet.TaskStopped, o.Status)
	x.Contains(text, "Interrupted")
	_, o = x.runToEnd(a, newRun("echo still here"))
	x.Equal("still here", o.Summary)
}

func testInterruptIdle(x *recordedPlace) {
	a := x.readyAgent("idle")
	r := newRun("echo done already")
	x.NoError(x.place.Connect(a).Interrupt(x.ctx, r, false), "an interrupt of a run that was never dispatched must succeed")
	_, o := x.runToEnd(a, r)
	x.NoError(x.place.Connect(a).Interrupt(x.ctx, r, true))
	_, same := x.follow(a, r)
	x.Equal(o, same)
}

// testMessageToBusyAgent sends a message to a busy agent. The message is delivered when the agent is idle, and the run
// continues.
func testMessageToBusyAgent(x *recordedPlace) {
	a := x.readyAgent("told")
	r := newRun("sleep 4")
	x.NoError(x.place.Connect(a).Dispatch(x.ctx, r))
	for range 2 {
		x.NoError(x.place.Connect(a).Send(x.ctx, r, "m1", "echo the follow-up"))
	}
	text, o := x.follow(a, r)
	x.Equal(fleet.TaskCompleted, o.Status)
	x.Equal("the follow-up", o.Summary)
	x.Contains(text, "[coder] Handled: sleep 4\n")
	x.Equal(1, strings.Count(text, "the follow-up\n"))
	x.requireReason(x.place.Connect(a).Send(x.ctx, r, "m2", "one more thing"), fleet.ReasonNoRunningTask)
}

// testMessageOfAnotherServer simulates a server that stopped after it had sent a message. The next server does not know whether
// the message was delivered, so it sends it again. Then it sends another message with the same text.
func testMessageOfAnotherServer(x *recordedPlace) {
	a := x.readyAgent("heir")
	r := newRun("sleep 2")
	x.NoError(x.place.Connect(a).Dispatch(x.ctx, r))
	x.NoError(x.place.Connect(a).Send(x.ctx, r, "m1", "go on"))
	x.place.ForgetRuns()
	r.Again = true
	x.NoError(x.place.Connect(a).Send(x.ctx, r, "m1", "go on"))
	x.place.ForgetRuns()
	r.Messages = []fleet.Message{{ID: "m1", Text: "go on"}}
	x.NoError(x.place.Connect(a).Send(x.ctx, r, "m2", "go on"))
	text, o := x.follow(a, r)
	x.Equal("[coder] Handled: go on", o.Summary)
	x.Equal(2, strings.Count(text, "Handled: go on\n"), text)
}

func testMessageTooLate(x *recordedPlace) {
	a := x.readyAgent("late")
	r := newRun("echo over")
	x.runToEnd(a, r)
	x.requireReason(x.place.Connect(a).Send(x.ctx, r, "m", "one more thing"), fleet.ReasonNoRunningTask)
}

func testReadLog(x *recordedPlace) {
	a := x.readyAgent("log")
	all, more, err := x.place.Log(x.ctx, a, 10000)
	x.NoError(err)
	x.False(more)
	x.Greater(len(all), 3)
	last, more, err := x.place.Log(x.ctx, a, 2)
	x.NoError(err)
	x.True(more)
	x.Equal(all[len(all)-2:], last)
	lines, _, err := x.place.Log(x.ctx, x.agent("nobody"), 10)
	x.NoError(err)
	x.Empty(lines)
}

func testTokenRefused(x *recordedPlace) {
	_, err := x.place.Projects(x.ctx)
	x.Contains(x.requireReason(err, fleet.ReasonBackendUnavailable).Message, "Coder does not accept the token")
	_, err = x.place.List(x.ctx)
	x.NotContains(x.requireReason(err, fleet.ReasonBackendUnavailable).Error(), "0123456789")
}

// testHiddenWorkspace inspects a workspace that does not exist or is not visible. Coder gives the same answer in both
// cases.
func testHiddenWorkspace(x *recordedPlace) {
	a := x.agent("others")
	a.WorkspaceID = "00000000-0000-4000-8000-000000000001"
	w := x.inspect(a)
	x.True(w.Missing, "a workspace that Coder does not show must be missing, not deleted: %+v", w)
	x.requireReason(x.place.Connect(a).Dispatch(x.ctx, newRun("echo hello")), fleet.ReasonBackendUnavailable)
	x.requireReason(x.place.Start(x.ctx, a), fleet.ReasonBackendUnavailable)
}

// testAgentOfOtherUser uses the token of an admin, who can see all workspaces. The workspaces of other users must not be listed
// as the admin's agents.
func testAgentOfOtherUser(x *recordedPlace) {
	a := x.readyAgent("not-mine")
	all := x.list()
	for _, w := range all {
		x.NotEqual("cas-not-mine", w.Name)
	}
	x.ifRecording(func() {
		var ws struct{ ID string }
		x.NoError(json.Unmarshal([]byte(x.request(http.MethodGet, "/api/v2/users/me/workspace/agent-cas-not-mine", "")), &ws))
		a.WorkspaceID = ws.ID
		x.NoError(os.WriteFile(filepath.Join(cassettes, "other-users-agent.id"), []byte(ws.ID+"\n"), 0o644))
	})
	if !*record {
		id, err := os.ReadFile(filepath.Join(cassettes, "other-users-agent.id"))
		x.NoError(err)
		a.WorkspaceID = strings.TrimSpace(string(id))
	}
	w := x.inspect(a)
	x.True(w.Missing, "a workspace of another owner must be missing, not deleted: %+v", w)
	x.Contains(w.Reason, "belongs to the Coder user bob")
	kept, err := x.place.Delete(x.ctx, a)
	x.NoError(err)
	x.Contains(kept, "was not deleted")
	x.ifRecording(func() { x.awaitLive(x.agent("not-mine"), fleet.StateRunning) })
}

// testOwnerPrincipal creates an agent whose workspace belongs to the agent's owner. For that, Fleet creates a token of the owner,
// and revokes it afterwards.
func testOwnerPrincipal(x *recordedPlace) {
	a := fleet.Agent{UID: "uid-of-hers", Name: "hers", Owner: "alice", Project: "Setup", Role: "coder", Spec: "A spec."}
	w := x.provision(a)
	x.Equal("alice", w.Owner)
	x.Contains(w.Location, "/@alice/own-hers")
	a.WorkspaceID = w.ID
	x.await(a, fleet.StateRunning)
	_, o := x.runToEnd(a, newRun("echo as alice"))
	x.Equal("as alice", o.Summary)
	x.place.ForgetTemplates()
	all := x.list()
	x.Len(all, 1)
	x.Equal("alice", all[0].Owner)
	x.Equal(a.Spec, all[0].Spec)
	x.delete(a)
	w = x.inspect(a)
	x.Equal(fleet.StateDeleted, w.State)
}

// testOwnerUnknown creates an agent for an owner who is not a Coder user.
func testOwnerUnknown(x *recordedPlace) {
	a := fleet.Agent{UID: "uid-of-his", Name: "his", Owner: "nobody-here", Project: "Setup", Role: "coder", Spec: "A spec."}
	_, err := x.place.Provision(x.ctx, a)
	x.Contains(x.requireReason(err, fleet.ReasonInvalidArgument).Message, `Coder has no user "nobody-here"`)
}
