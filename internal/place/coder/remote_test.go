package coder_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/coder/v2/codersdk"

	"fleet/internal/fleet"
	"fleet/internal/runner/remote"
	"fleet/internal/waittest"
)

// TestRunner checks that a workspace's fleet-runner is used, and not its AgentAPI.
func TestRunner(t *testing.T) {
	x := newFakeCoder(t)
	s := x.addRunner()
	p := x.newPlace()
	ws, err := p.Inspect(t.Context(), x.agent())
	x.NoError(err)
	x.Equal(fleet.StateRunning, ws.State, ws.Reason)
	r := x.newRun("Say it.")
	x.NoError(p.Connect(x.agent()).Dispatch(t.Context(), r))
	x.Len(s.runs, 1)
	x.Equal("Say it.", s.runs[0].Prompt)

	ctx, cancel := context.WithCancel(t.Context())
	var outputs []fleet.Output
	_, err = p.Connect(x.agent()).Follow(ctx, r, "", func(out fleet.Output) error {
		outputs = append(outputs, out)
		cancel()
		return nil
	})
	x.ErrorIs(err, context.Canceled)
	x.Equal([]fleet.Output{{Cursor: "r17", Text: wideText}}, outputs)

	p.ForgetRuns() // as if another process took over
	x.NoError(p.Connect(x.agent()).Send(t.Context(), r, "message-1", "Raw\x1b text."))
	o, err := p.Connect(x.agent()).Follow(t.Context(), r, "r17", func(fleet.Output) error { return nil })
	x.NoError(err)
	x.Equal(fleet.TaskCompleted, o.Status)
	x.Equal("Raw\x1b text.", o.Summary)
	x.Equal(wideText, string(o.Payload))
	x.Equal("17", s.cursors[len(s.cursors)-1])

	next := x.newRun("Again.")
	x.NoError(p.Connect(x.agent()).Interrupt(t.Context(), next, true))
	o, err = p.Connect(x.agent()).Follow(t.Context(), next, "", func(fleet.Output) error { return nil })
	x.NoError(err)
	x.Equal(fleet.TaskStopped, o.Status)
	for _, request := range []string{"GET status", "GET messages", "POST message", "GET events"} {
		x.Zero(x.count(request), "%s: no request may be sent to AgentAPI", request)
	}
}

// TestRunnerReportsWork checks the calls that read an agent's work from fleet-runner, an answer to a question, and the errors of
// Patch after the workspace was stopped or deleted.
func TestRunnerReportsWork(t *testing.T) {
	x := newFakeCoder(t)
	x.addRunner()
	p := x.newPlace()
	a, r := p.Connect(x.agent()), x.newRun("Say it.")
	r.TaskID = "task-1"
	c, err := a.Changes(t.Context(), r)
	x.NoError(err)
	x.Equal(&fleet.Changes{Base: "b", Commit: "task-1"}, c)
	text, more, err := a.Patch(t.Context(), *c, "/file", 5, 100)
	x.NoError(err)
	x.True(more)
	x.Equal("1/file", string(text))
	res, err := a.Check(t.Context(), r, fleet.Check{ID: "1", Command: "true", Timeout: waittest.Limit})
	x.NoError(err)
	x.Equal(fleet.CheckResult{Command: "true", Status: fleet.CheckPassed}, res)
	var bundle strings.Builder
	x.NoError(a.Bundle(t.Context(), &bundle))
	x.Equal(wideText, bundle.String())
	x.NoError(a.Answer(t.Context(), r, fleet.Question{ID: "task-1-1", Answer: "tabs"}))
	o, err := a.Follow(t.Context(), r, "r17", func(fleet.Output) error { return nil })
	x.NoError(err)
	x.Equal("tabs", o.Summary)

	x.update(func() { x.ws.LatestBuild.Status = codersdk.WorkspaceStatusStopped })
	_, _, err = a.Patch(t.Context(), *c, "", 0, 100)
	requireReason(x.T, err, fleet.ReasonAgentOffline)
	x.update(func() { x.deleted = true })
	_, _, err = a.Patch(t.Context(), *c, "", 0, 100)
	requireReason(x.T, err, fleet.ReasonChangesNotFound)
}

// TestScreenLimitations checks the errors of calls that an agent with only AgentAPI does not support.
func TestScreenLimitations(t *testing.T) {
	x := newFakeCoder(t)
	a, r := x.newPlace().Connect(x.agent()), x.newRun("Say it.")
	_, err := a.Changes(t.Context(), r)
	requireReason(x.T, err, fleet.ReasonUnimplemented)
	_, _, err = a.Patch(t.Context(), fleet.Changes{}, "", 0, 100)
	requireReason(x.T, err, fleet.ReasonUnimplemented)
	_, err = a.Check(t.Context(), r, fleet.Check{ID: "1", Command: "true"})
	requireReason(x.T, err, fleet.ReasonUnimplemented)
	x.Equal(fleet.ReasonUnimplemented, fleet.ReasonOf(a.Bundle(t.Context(), io.Discard)))
	x.Equal(fleet.ReasonUnimplemented, fleet.ReasonOf(a.Answer(t.Context(), r, fleet.Question{})))
}

// refuseRunner returns a fault that answers the requests for the runner with a web page.
func refuseRunner(status int) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		isForRunner := strings.HasPrefix(r.URL.Path, runnerPath)
		if isForRunner {
			writePage(w, status)
		}
		return isForRunner
	}
}

// TestPathAppsDisabled checks that the error for a Coder without path apps says what to do.
func TestPathAppsDisabled(t *testing.T) {
	x := newFakeCoder(t)
	x.addRunner()
	x.fault = refuseRunner(http.StatusForbidden)
	p := x.newPlace()
	err := p.Connect(x.agent()).Dispatch(t.Context(), x.newRun("Say it."))
	requireReason(x.T, err, fleet.ReasonPermissionDenied)
	x.Contains(err.Error(), "--disable-path-apps")
	_, err = p.Connect(x.agent()).Follow(t.Context(), x.newRun("Say it."), "", func(fleet.Output) error { return nil })
	x.Contains(err.Error(), "--disable-path-apps")
}

// TestRunnerGone checks that a run fails when its workspace is stopped.
func TestRunnerGone(t *testing.T) {
	x := newFakeCoder(t)
	x.addRunner()
	p := x.newPlace()
	o, err := p.Connect(x.agent()).Follow(t.Context(), x.newRun("Say it."), "", func(fleet.Output) error {
		x.update(func() {
			x.ws.LatestBuild.Status = codersdk.WorkspaceStatusStopped
			x.fault = refuseRunner(http.StatusNotFound)
		})
		x.server.CloseClientConnections()
		return nil
	})
	x.NoError(err)
	x.Equal(fleet.TaskFailed, o.Status)
	x.Contains(o.Reason, "stopped")
}

// TestRunnerOff checks calls for a stopped workspace. Coder does not show the apps of such a workspace.
func TestRunnerOff(t *testing.T) {
	x := newFakeCoder(t)
	x.addRunner()
	x.ws.LatestBuild.Status, x.ws.LatestBuild.Resources = codersdk.WorkspaceStatusStopped, nil
	r := x.newRun("Say it.")
	runner := x.newPlace().Connect(x.agent())
	_, err := runner.Check(t.Context(), r, fleet.Check{ID: "1", Command: "true"})
	requireReason(x.T, err, fleet.ReasonAgentOffline)
	_, err = runner.Changes(t.Context(), r)
	requireReason(x.T, err, fleet.ReasonAgentOffline)
	_, _, err = runner.Patch(t.Context(), fleet.Changes{}, "", 0, 1)
	requireReason(x.T, err, fleet.ReasonAgentOffline)
	x.Equal(fleet.ReasonAgentOffline, fleet.ReasonOf(runner.Bundle(t.Context(), io.Discard)))
	x.Equal(fleet.ReasonAgentOffline, fleet.ReasonOf(runner.Dispatch(t.Context(), r)))
	x.NoError(runner.Interrupt(t.Context(), r, true))
	for _, cursor := range []string{"", "r17"} {
		o, err := runner.Follow(t.Context(), r, cursor, func(fleet.Output) error { return nil })
		x.NoError(err)
		x.Equal(fleet.TaskFailed, o.Status)
		x.Contains(o.Reason, "its workspace was stopped")
	}
}

// TestRunnerWhileStarting checks that runs continue while the startup script runs again, as it does after a crash of Coder's
// agent.
func TestRunnerWhileStarting(t *testing.T) {
	x := newFakeCoder(t)
	s := x.addRunner()
	runner := x.newPlace().Connect(x.agent())
	r := x.newRun("Say it.")
	x.NoError(runner.Dispatch(t.Context(), r))
	x.update(func() {
		x.ws.LatestBuild.Resources[0].Agents[0].LifecycleState = codersdk.WorkspaceAgentLifecycleStarting
	})
	x.NoError(runner.Dispatch(t.Context(), r))
	x.NoError(runner.Interrupt(t.Context(), r, false))
	output := ""
	o, err := runner.Follow(t.Context(), r, "", func(out fleet.Output) error {
		output += out.Text
		return nil
	})
	x.NoError(err)
	x.Equal(wideText, output)
	x.Equal(fleet.TaskStopped, o.Status)
	x.Len(s.runs, 2)
}

// TestPublicKey checks that a workspace gets Fleet's key if its template has the parameter for the key.
func TestPublicKey(t *testing.T) {
	x := newFakeCoder(t)
	x.addRunner()
	var got codersdk.CreateWorkspaceRequest
	x.fault = func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case strings.HasSuffix(r.URL.Path, "/rich-parameters"):
			return writeJSON(w, []codersdk.TemplateVersionParameter{{Name: "fleet_public_key"}})
		case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/workspaces"):
			_ = json.NewDecoder(r.Body).Decode(&got)
			w.WriteHeader(http.StatusCreated)
			return writeJSON(w, x.ws)
		}
		return false
	}
	a := x.agent()
	a.WorkspaceID, a.Role = "", "Coder"
	_, err := x.newPlace().Provision(t.Context(), a)
	x.NoError(err)
	x.Contains(got.RichParameterValues, codersdk.WorkspaceBuildParameter{Name: "fleet_public_key", Value: remote.FormatPublicKey(x.key)})
}
