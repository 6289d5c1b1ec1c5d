//go:build cgo

package cagent_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/waittest"
)

// crash replaces the place by one with a copy of its directory, as if the server had crashed. The runs must be waiting.
func (d *fixture) crash() {
	d.t.Helper()
	was, dir := d.b, d.t.TempDir()
	require.NoError(d.t, os.CopyFS(dir, os.DirFS(d.cfg.Dir)))
	d.cfg.Dir = dir
	d.open()
	d.t.Cleanup(func() { require.NoError(d.t, was.Close()) })
}

// until follows the task until an output begins with the text, and returns its outputs.
func (d *fixture) until(r fleet.Run, text string) (all []fleet.Output) {
	d.t.Helper()
	found := errors.New("found")
	_, err := d.b.Connect(d.agent).Follow(d.t.Context(), r, "", func(out fleet.Output) error {
		all = append(all, out)
		if strings.HasPrefix(out.Text, text) {
			return found
		}
		return nil
	})
	require.ErrorIs(d.t, err, found)
	return all
}

// runFile returns the path of a file in the directory of the task's run.
func (d *fixture) runFile(r fleet.Run, name string) string {
	return filepath.Join(d.cfg.Dir, "agents", d.agent.UID, "runs", r.TaskID, name)
}

// waits begins a task whose agent calls a tool that never returns, and then says "after".
func (d *fixture) waits() fleet.Run {
	d.t.Helper()
	r := d.begin("model: tool wait {}\nmodel: say after")
	d.until(r, "wait")
	return r
}

func newWaiting(t *testing.T) *fixture {
	t.Helper()
	return newFixture(t, fleet.AgentConfig{Tools: []fleet.Tool{waiting(t, "wait")}, Inside: []string{"127.0.0.1"}, Reports: true}, nil)
}

// TestResume closes the place during a run, and follows the run in the next one.
func TestResume(t *testing.T) {
	t.Parallel()
	d := newWaiting(t)
	r := d.begin(`model: tool think {"thought":"first"}` + "\nmodel: hang here")
	before := d.until(r, "think answered")
	<-d.model.Gate("here").Arrived()
	require.NoError(t, d.b.Close())
	_, err := d.b.Connect(d.agent).Follow(t.Context(), r, "", func(fleet.Output) error { return nil })
	require.Equal(t, fleet.ReasonBackendUnavailable, fleet.ReasonOf(err), "the task must not fail")

	d.open()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	d.b.Drain(ended)
	_, err = d.b.Connect(d.agent).Follow(t.Context(), r, "", func(fleet.Output) error { return nil })
	require.Equal(t, fleet.ReasonBackendUnavailable, fleet.ReasonOf(err), "a server that is being shut down resumes nothing")
	require.NoError(t, d.b.Close())

	d.open()
	d.model.Gate("here").Open()
	all, o := d.end(r)
	require.Equal(t, fleet.TaskCompleted, o.Status, o.Reason)
	require.Equal(t, "Went on", o.Summary)
	require.Equal(t, 1, o.Usage.ToolCalls)
	require.Equal(t, 3, o.Turns)
	require.GreaterOrEqual(t, o.Usage.InputTokens, int64(2000))
	require.Equal(t, before, all[:len(before)])
	var rest strings.Builder
	for _, out := range all[len(before):] {
		rest.WriteString(out.Text + "\n")
	}
	require.Regexp(t, `(?s)^stub-large: 0 tokens.*warning: the server ended during the task.*Went on`, rest.String())
	require.Len(t, d.model.Asked("hang here"), 3)
	_, o = d.does("model: say next")
	require.Equal(t, "next", o.Summary)
}

// TestResumeAfterCrash checks what becomes of runs whose server has crashed.
func TestResumeAfterCrash(t *testing.T) {
	t.Parallel()
	for name, check := range map[string]func(t *testing.T, d *fixture){
		"during a tool call": func(t *testing.T, d *fixture) {
			r := d.waits()
			f, err := os.OpenFile(d.runFile(r, "output"), os.O_APPEND|os.O_WRONLY, 0)
			require.NoError(t, err)
			_, err = f.WriteString(`{"text":"ha`)
			require.NoError(t, err)
			require.NoError(t, f.Close())
			d.crash()
			_, o := d.end(r)
			require.Equal(t, "after", o.Summary, o.Reason)
			require.Contains(t, d.results()[0], "the call was interrupted")
		},
		"after the answer": func(t *testing.T, d *fixture) {
			r := d.begin("model: say done")
			_, o := d.end(r)
			require.NoError(t, os.Remove(d.runFile(r, "outcome.json")))
			d.crash()
			_, again := d.end(r)
			require.Equal(t, o, again)
			require.Len(t, d.model.Requests(), 1)
		},
		"after the report": func(t *testing.T, d *fixture) {
			r := d.begin(`model: tool agent_complete {"summary":"All done.","payload":"x"}`)
			_, o := d.end(r)
			require.True(t, o.Reported)
			require.NoError(t, os.Remove(d.runFile(r, "outcome.json")))
			d.crash()
			_, again := d.end(r)
			require.Equal(t, o.Payload, again.Payload)
			require.Equal(t, o.Summary, again.Summary)
			require.Len(t, d.model.Requests(), 1)
		},
		"before the prompt": func(t *testing.T, d *fixture) {
			r := d.begin("model: say done")
			d.end(r)
			require.NoError(t, os.Remove(d.runFile(r, "outcome.json")))
			require.NoError(t, os.Remove(filepath.Join(d.cfg.Dir, "agents", d.agent.UID, "conversation.jsonl")))
			d.crash()
			_, o := d.end(r)
			require.Equal(t, "done", o.Summary, o.Reason)
			require.Len(t, d.model.Requests(), 2)
		},
		"then it is interrupted": func(t *testing.T, d *fixture) {
			r := d.waits()
			d.crash()
			require.NoError(t, d.b.Connect(d.agent).Interrupt(t.Context(), r, false))
			_, o := d.end(r)
			require.Equal(t, fleet.TaskStopped, o.Status)
			require.Equal(t, 1, o.Turns)
			require.Len(t, d.model.Requests(), 1)
		},
		"then the agent is stopped": func(t *testing.T, d *fixture) {
			r := d.waits()
			d.crash()
			require.NoError(t, d.b.Stop(t.Context(), d.agent))
			_, o := d.end(r)
			require.Equal(t, fleet.TaskStopped, o.Status)
		},
		"after the agent was stopped": func(t *testing.T, d *fixture) {
			r := d.waits()
			require.NoError(t, os.WriteFile(filepath.Join(d.cfg.Dir, "agents", d.agent.UID, "stopped"), nil, 0o600))
			d.crash()
			_, o := d.end(r)
			require.Equal(t, fleet.TaskStopped, o.Status)
		},
		"too long": func(t *testing.T, d *fixture) {
			r := d.waits()
			d.cfg.Now = func() time.Time { return time.Now().Add(2 * waittest.Limit) }
			d.crash()
			_, o := d.end(r)
			require.Equal(t, fleet.TaskFailed, o.Status)
			require.Contains(t, o.Reason, r.Timeout.String())
		},
		"too often": func(t *testing.T, d *fixture) {
			r := d.begin("model: hang here")
			<-d.model.Gate("here").Arrived()
			for range 3 {
				d.crash()
				d.until(r, "warning: the server ended during the task")
			}
			d.crash()
			_, o := d.end(r)
			require.Equal(t, fleet.TaskFailed, o.Status)
			require.Contains(t, o.Reason, "crashed 4 times")
			_, o = d.does("model: say next")
			require.Equal(t, "next", o.Summary, o.Reason)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, newWaiting(t))
		})
	}
}
