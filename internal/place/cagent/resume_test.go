//go:build cgo

package cagent_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/cagent"
	"fleet/internal/place/placetest/model"
	"fleet/internal/price"
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
	return newFixture(t, fleet.AgentConfig{Tools: []fleet.Tool{waiting(t, "wait")}, Inside: []string{"127.0.0.1"}, Reports: true}, func(c *cagent.Config) {
		c.Prices = price.NewList(map[string]fleet.Price{"anthropic/stub-large": {Input: 1, Output: 10}})
	})
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

	for times := range 5 { // more often than a server may crash
		d.open()
		resumed, found := 0, errors.New("found")
		_, err := d.b.Connect(d.agent).Follow(t.Context(), r, "", func(out fleet.Output) error {
			if strings.HasPrefix(out.Text, "warning: the server ended") {
				resumed++
			}
			if resumed > times {
				return found
			}
			return nil
		})
		require.ErrorIs(t, err, found)
		require.NoError(t, d.b.Close())
	}

	d.open()
	d.model.Gate("here").Open()
	all, o := d.end(r)
	require.Equal(t, fleet.TaskCompleted, o.Status, o.Reason)
	require.InDelta(t, float64(o.Usage.InputTokens+10*o.Usage.OutputTokens)/1e6, o.CostUSD, 1e-9)
	require.Equal(t, "Went on", o.Summary)
	require.Equal(t, 1, o.Usage.ToolCalls)
	require.Equal(t, 2, o.Turns, "the interrupted request must not count")
	require.GreaterOrEqual(t, o.Usage.InputTokens, int64(2000))
	require.Equal(t, before, all[:len(before)])
	var rest strings.Builder
	for _, out := range all[len(before):] {
		rest.WriteString(out.Text + "\n")
	}
	require.Regexp(t, `(?s)^stub-large: 0 tokens.*warning: the server ended during the task.*Went on`, rest.String())
	require.GreaterOrEqual(t, len(d.model.Asked("hang here")), 3) // a run can be interrupted before it has asked
	_, o = d.does("model: say next")
	require.Equal(t, "next", o.Summary)
}

// TestResumeTeam shuts the server down while another agent of the team works.
func TestResumeTeam(t *testing.T) {
	t.Parallel()
	for tool, c := range map[string]struct{ relation, arguments, says string }{
		"transfer_task": {"sub_agents", `{"agent":"writer","task":"write","expected_output":"a poem"}`, "root got: The tool \"transfer_task\" gave no answer"},
		"handoff":       {"handoffs", `{"agent":"writer"}`, "writer speaks"},
	} {
		t.Run(tool, func(t *testing.T) {
			t.Parallel()
			d := newFixture(t, fleet.AgentConfig{Document: `
models:
  stub: {provider: openai, model: stub-large, base_url: "MODEL/v1"}
agents:
  root: {model: stub, description: Leads., instruction: You lead., ` + c.relation + `: [writer]}
  writer: {model: stub, description: Writes., instruction: You write.}
`}, nil)
			d.model.SetAnswer(func(r model.Request) model.Step {
				switch {
				case strings.Contains(r.System, "You write."):
					return model.Step{Gate: "here", Text: "writer speaks"}
				case len(r.Results()) == 0:
					return model.Step{Calls: []model.Call{{Name: tool, Input: []byte(c.arguments)}}}
				}
				return model.Step{Text: "root got: " + r.Results()[0].Text}
			})
			r := d.begin("a poem please")
			<-d.model.Gate("here").Arrived()
			require.NoError(t, d.b.Close())
			d.model.Gate("here").Open()
			d.open()
			_, o := d.end(r)
			require.Contains(t, o.Summary, c.says, o.Reason)
		})
	}
}

// TestDrainInterrupts checks that a run which does not end in time is interrupted before the place is closed, and resumed.
func TestDrainInterrupts(t *testing.T) {
	t.Parallel()
	d := newFixture(t, fleet.AgentConfig{Document: `
models:
  stub: {provider: openai, model: stub-large, base_url: "MODEL/v1"}
agents:
  root: {model: stub, instruction: You lead., max_iterations: 1}
`}, nil)
	r := d.begin("model: hang here")
	<-d.model.Gate("here").Arrived()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	d.b.Drain(ctx)
	_, err := d.b.Connect(d.agent).Follow(t.Context(), r, "", func(fleet.Output) error { return nil })
	require.Equal(t, fleet.ReasonBackendUnavailable, fleet.ReasonOf(err), "the task must not fail")
	require.NoError(t, d.b.Close())
	d.model.Gate("here").Open()
	d.open()
	_, o := d.end(r)
	require.Equal(t, "Went on", o.Summary, o.Reason) // the interrupted request does not count for max_iterations
}

// TestListDuringDispatch checks that calls which look at all agents and calls for one agent do not wait for each other.
func TestListDuringDispatch(t *testing.T) {
	t.Parallel()
	d := newFixture(t, fleet.AgentConfig{}, nil)
	stop := make(chan struct{})
	var lists sync.WaitGroup
	for range 2 {
		lists.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					_, _ = d.b.List(context.Background())
				}
			}
		})
	}
	for range 20 {
		_, o := d.does("model: say done")
		require.Equal(t, "done", o.Summary, o.Reason)
	}
	close(stop)
	lists.Wait()
}

// TestUnwritable makes files of a run unwritable for a while.
func TestUnwritable(t *testing.T) {
	t.Parallel()
	blocked := func(d *fixture, path string) (repair func()) {
		was := path + ".was"
		_ = os.Rename(path, was) // it may not exist
		require.NoError(d.t, os.MkdirAll(filepath.Join(path, "x"), 0o700))
		return func() {
			require.NoError(d.t, os.RemoveAll(path))
			_ = os.Rename(was, path)
		}
	}
	t.Run("the conversation", func(t *testing.T) {
		t.Parallel()
		d := newFixture(t, fleet.AgentConfig{}, nil)
		d.model.SetAnswer(func(model.Request) model.Step {
			return model.Step{Gate: "here", Calls: []model.Call{{Name: "think", Input: []byte(`{"thought":"pay"}`)}}}
		})
		r := d.begin("do")
		<-d.model.Gate("here").Arrived()
		repair := blocked(d, filepath.Join(d.cfg.Dir, "agents", d.agent.UID, "conversation.jsonl"))
		d.model.Gate("here").Open()
		all, o := d.end(r)
		repair()
		require.Equal(t, fleet.TaskFailed, o.Status)
		require.Contains(t, o.Reason, "cannot write the agent's conversation")
		for _, out := range all {
			require.NotContains(t, out.Text, "Thoughts", "a tool whose call is not stored must not be used")
		}
	})
	t.Run("the report", func(t *testing.T) {
		t.Parallel()
		d := newFixture(t, fleet.AgentConfig{Reports: true}, nil)
		d.model.SetAnswer(func(r model.Request) model.Step {
			gate := "here"
			if len(r.Results()) > 0 {
				gate = "there"
			}
			return model.Step{Gate: gate, Calls: []model.Call{{Name: "agent_complete", Input: []byte(`{"summary":"All done."}`)}}}
		})
		r := d.begin("do")
		<-d.model.Gate("here").Arrived()
		repair := blocked(d, d.runFile(r, "run.json"))
		d.model.Gate("here").Open()
		<-d.model.Gate("there").Arrived()
		require.Contains(t, d.results()[0], "Your report was not received")
		repair()
		d.model.Gate("there").Open()
		_, o := d.end(r)
		require.True(t, o.Reported)
	})
	t.Run("the outcome", func(t *testing.T) {
		t.Parallel()
		d := newFixture(t, fleet.AgentConfig{}, nil)
		r := d.begin("model: hang here")
		<-d.model.Gate("here").Arrived()
		repair := blocked(d, d.runFile(r, "outcome.json"))
		d.model.Gate("here").Open()
		_, err := d.b.Connect(d.agent).Follow(t.Context(), r, "", func(fleet.Output) error { return nil })
		require.ErrorContains(t, err, "cannot write the run's outcome")
		repair()
		_, o := d.end(r)
		require.Equal(t, "Went on", o.Summary, o.Reason)
		require.FileExists(t, d.runFile(r, "outcome.json"))
	})
}
