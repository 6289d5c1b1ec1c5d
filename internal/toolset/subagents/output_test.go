package subagents_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/toolset/subagents"
)

// resultsFrontmatter requires an answer in JSON that has a list of results.
const resultsFrontmatter = `output_format: json
output_schema:
  type: object
  properties:
    results: { type: array, items: { type: string } }
  required: [results]`

// setRetryAnswers sets the answers that claude gives when it is asked again.
func (w *testService) setRetryAnswers(lines ...string) {
	w.t.Helper()
	require.NoError(w.t, os.WriteFile(filepath.Join(w.dir, "home", "better"), []byte(strings.Join(lines, "\n")+"\n"), 0o600))
}

// TestOutput checks answers in JSON: valid ones, ones that need another attempt, and those of repeated requests.
func TestOutput(t *testing.T) {
	t.Parallel()
	for _, session := range []bool{false, true} {
		t.Run(map[bool]string{false: "alone", true: "in a conversation"}[session], func(t *testing.T) {
			t.Parallel()
			w := newTestService(t, nil)
			front := resultsFrontmatter
			if session {
				front += "\nsession: true"
			}
			w.define("j", front, "You search.")
			r := w.mustRun("j", `say {"results": ["a"]}`)
			require.JSONEq(t, `{"results":["a"]}`, r.Text)
			c := w.calls()[0]
			require.Contains(t, c.System, "You search.\n\nYour answer is read by a program")
			require.Contains(t, c.System, `"required":["results"]`)

			// The subagent is asked again in the same conversation until the answer is valid, at most three times in all.
			w.setRetryAnswers("still wrong", `{"results": [1]}`)
			_, err := w.run("j", "say Sorry")
			e := requireReason(t, err, fleet.ReasonOutputInvalid, "asked 3 times", "at /results/0", "got number, want string")
			require.Equal(t, "3", e.Metadata["attempts"])
			require.Equal(t, `{"results": [1]}`, e.Metadata["answer"])
			n := len(w.calls())
			require.Equal(t, 4, n)

			w.setRetryAnswers(`{"results": []}`)
			r = w.mustRun("j", `say {"result": []}`)
			require.JSONEq(t, `{"results":[]}`, r.Text)
			require.InDelta(t, 0.5, r.CostUSD, 1e-9, "the cost must include both tasks")
			require.EqualValues(t, 200, r.Usage.InputTokens)
			c = lastOf(w.calls())
			require.Equal(t, "Your answer cannot be used: at /: missing property 'results'\n\nAnswer again, with the one JSON value that was asked for and nothing else.", c.Prompt)
			require.NotEqual(t, "-", c.flag("--resume"))
			if !session {
				w.fleet.WaitStored(func() bool { return len(w.agents()) == 0 })
			}

			// A repeated request does not run the subagent again.
			w.setRetryAnswers()
			request := subagents.Request{Agent: "j", Prompt: `say {"results": []}`, RequestID: "r"}
			for range 2 {
				_, err = w.Run(w.ctx(), request)
				require.NoError(t, err)
			}
			require.Len(t, w.calls(), n+3)

			// This also holds if the first answer was not valid.
			w.setRetryAnswers(`{"results": ["b"]}`)
			request = subagents.Request{Agent: "j", Prompt: "say Sorry", RequestID: "s"}
			for range 2 {
				r, err = w.Run(w.ctx(), request)
				require.NoError(t, err)
				require.JSONEq(t, `{"results":["b"]}`, r.Text)
				require.InDelta(t, 0.5, r.CostUSD, 1e-9)
			}
			require.Len(t, w.calls(), n+5)
		})
	}
}

// TestOutputOfCommand checks that a program that does not remember its conversation gets the first prompt and its answer again.
func TestOutputOfCommand(t *testing.T) {
	t.Parallel()
	w := newTestService(t, func(c *subagents.Config) { c.Retries = 1 })
	require.NoError(t, os.WriteFile(filepath.Join(w.dir, "bin", "tool"), []byte(`#!/bin/sh
in=$(cat); case "$in" in *"You were asked:"*) echo "$in" >"`+w.dir+`/home/again"; echo '{"ok": true}';; *) echo no;; esac
`), 0o700))
	w.define("t", "driver: command\ncommand: [tool]\noutput_format: json", "You are a tool.")
	require.JSONEq(t, `{"ok":true}`, w.mustRun("t", "Do it.").Text)
	again, err := os.ReadFile(filepath.Join(w.dir, "home", "again"))
	require.NoError(t, err)
	require.Contains(t, string(again), "You are a tool.")
	require.Contains(t, string(again), "Your answer cannot be used: it is not JSON")
	require.Contains(t, string(again), "You were asked:\n\nDo it.\n\nAnd you answered:\n\nno\n")
}
