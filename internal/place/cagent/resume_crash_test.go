//go:build cgo

package cagent_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/waittest"
)

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
		"before lines of the output":            func(t *testing.T, d *fixture) { d.catchesUp(t, true) },
		"after lines that are not followed yet": func(t *testing.T, d *fixture) { d.catchesUp(t, false) },
		"after the answer": func(t *testing.T, d *fixture) {
			r := d.begin(`model: tool think {"thought":"first"}` + "\nmodel: say done")
			_, o := d.end(r)
			require.NoError(t, os.Remove(d.runFile(r, "outcome.json")))
			require.NoError(t, os.Truncate(d.runFile(r, "output"), 0))
			d.crash()
			out, again := d.end(r)
			require.Equal(t, o, again)
			require.Len(t, thoughts(out), 2)
			require.Len(t, d.model.Requests(), 2)
		},
		"after the report": func(t *testing.T, d *fixture) {
			r := d.begin(`model: tool think {"thought":"first"}` + "\n" + `model: tool agent_complete {"summary":"All done.","payload":"x"}`)
			_, o := d.end(r)
			require.True(t, o.Reported)
			require.NoError(t, os.Remove(d.runFile(r, "outcome.json")))
			require.NoError(t, os.Truncate(d.runFile(r, "output"), 0))
			d.crash()
			out, again := d.end(r)
			require.Len(t, thoughts(out), 2)
			require.Equal(t, o.Payload, again.Payload)
			require.Equal(t, o.Summary, again.Summary)
			require.Len(t, d.model.Requests(), 2)
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
			require.Equal(t, 1, o.Usage.ToolCalls)
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
		"then the stopped agent is started": func(t *testing.T, d *fixture) {
			r := d.waits()
			require.NoError(t, os.WriteFile(filepath.Join(d.cfg.Dir, "agents", d.agent.UID, "stopped"), nil, 0o600))
			d.crash()
			require.NoError(t, d.b.Start(t.Context(), d.agent))
			_, o := d.does("model: say next")
			require.Equal(t, "next", o.Summary, o.Reason)
			_, o = d.end(r)
			require.Equal(t, fleet.TaskStopped, o.Status)
		},
		"then another task is given": func(t *testing.T, d *fixture) {
			d.waits()
			d.crash()
			other := fleet.Run{TaskID: uuid.NewString(), Prompt: "model: say next", Timeout: waittest.Limit}
			waittest.Until(t, "a store of an earlier time does not know the run, so nobody follows it", func() bool {
				err := d.b.Connect(d.agent).Dispatch(t.Context(), other)
				if err != nil {
					require.Equal(t, fleet.ReasonAgentBusy, fleet.ReasonOf(err))
				}
				return err == nil
			})
			_, o := d.end(other)
			require.Equal(t, "next", o.Summary, o.Reason)
		},
		"of the machine": func(t *testing.T, d *fixture) { // lines of the output that Follow has passed on are lost
			r := d.waits()
			all := d.until(r, "wait")
			require.NoError(t, os.Truncate(d.runFile(r, "output"), 20))
			d.crash()
			var rest strings.Builder
			o, err := d.b.Connect(d.agent).Follow(t.Context(), r, all[len(all)-1].Cursor, func(out fleet.Output) error {
				rest.WriteString(out.Text)
				return nil
			})
			require.NoError(t, err)
			require.Equal(t, "after", o.Summary, o.Reason)
			require.Contains(t, rest.String(), "after")
			_, err = d.b.Connect(d.agent).Follow(t.Context(), r, "21", func(fleet.Output) error { return nil })
			require.NoError(t, err, "a cursor in a line means the next line")
		},
		"with a secret in the answer": func(t *testing.T, d *fixture) {
			r := d.begin("model: say the key is " + stubKey)
			_, o := d.end(r)
			require.NoError(t, os.Remove(d.runFile(r, "outcome.json")))
			d.crash()
			_, again := d.end(r)
			require.Equal(t, o.Summary, again.Summary)
			require.NotContains(t, string(again.Payload), stubKey)
		},
		"with a secret in the report": func(t *testing.T, d *fixture) {
			r := d.begin(`model: tool agent_complete {"summary":"the key is ` + stubKey + `","payload":"` + stubKey + ` is the key"}`)
			_, o := d.end(r)
			require.Equal(t, "the key is [hidden]", o.Summary)
			require.Equal(t, "[hidden] is the key", string(o.Payload))
			require.NoError(t, os.Remove(d.runFile(r, "outcome.json")))
			d.crash()
			_, again := d.end(r)
			require.Equal(t, o.Summary, again.Summary)
			require.Equal(t, o.Payload, again.Payload)
		},
		"answered in time": func(t *testing.T, d *fixture) {
			r := d.begin("model: say done")
			_, o := d.end(r)
			require.NoError(t, os.Remove(d.runFile(r, "outcome.json")))
			d.cfg.Now = func() time.Time { return time.Now().Add(2 * waittest.Limit) }
			d.crash()
			require.NoError(t, d.b.Connect(d.agent).Interrupt(t.Context(), r, true))
			_, again := d.end(r)
			require.Equal(t, o, again)
		},
		"with a damaged record": func(t *testing.T, d *fixture) {
			r := d.waits()
			require.NoError(t, os.WriteFile(d.runFile(r, "run.json"), []byte("{"), 0o600))
			d.crash()
			_, o := d.end(r)
			require.Equal(t, fleet.TaskFailed, o.Status)
			_, o = d.does("model: say next")
			require.Equal(t, "next", o.Summary, o.Reason)
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

// catchesUp checks that the steps before a crash are in the output once, also if the crash came before their lines.
func (d *fixture) catchesUp(t *testing.T, lost bool) {
	r := d.begin(`model: tool think {"thought":"first"}` + "\nmodel: hang here")
	d.until(r, "think answered")
	<-d.model.Gate("here").Arrived()
	if lost {
		require.NoError(t, os.Truncate(d.runFile(r, "output"), 0))
	}
	d.crash()
	d.model.Gate("here").Open()
	out, o := d.end(r)
	require.Equal(t, fleet.TaskCompleted, o.Status, o.Reason)
	steps := thoughts(out)
	require.Len(t, steps, 2)
	require.Equal(t, "think: first", steps[0])
	require.Contains(t, steps[1], "think answered: ")
}

// thoughts returns the steps of the tool think.
func thoughts(out []fleet.Output) (steps []string) {
	for _, s := range out {
		if strings.HasPrefix(s.Text, "think") {
			steps = append(steps, s.Text)
		}
	}
	return steps
}
