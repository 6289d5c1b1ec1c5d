package driver

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

// TestModelOutputs parses the output of runs of models that ended normally, with an error, and without an outcome.
func TestModelOutputs(t *testing.T) {
	t.Parallel()
	const begin = `{"text":"one\n","data":{"type":"text"}}
{"step":true,"text":"shell: ls","open":1}
{"spent":{"Usage":{"Model":"m","InputTokens":7},"CostUSD":0.5,"Turns":1}}
`
	used := fleet.Usage{Model: "m", InputTokens: 7}
	for name, c := range map[string]struct {
		end  string
		exit Exit
		want fleet.Outcome
	}{
		"completed": {
			`{"outcome":{"Status":"completed","Summary":"done","Reported":true,"Usage":{"Model":"n","InputTokens":9},"CostUSD":1,"Turns":2}}`,
			Exit{},
			fleet.Outcome{Status: fleet.TaskCompleted, Summary: "done", Reported: true, Usage: fleet.Usage{Model: "n", InputTokens: 9}, CostUSD: 1, Turns: 2},
		},
		"failed":         {`{"outcome":{"Status":"failed","Reason":"no key"}}`, Exit{}, fleet.Outcome{Status: fleet.TaskFailed, Reason: "no key"}},
		"stopped":        {`{"outcome":{"Status":"stopped","Reason":"it was interrupted"}}`, Exit{}, fleet.Outcome{Status: fleet.TaskStopped, Reason: "it was interrupted"}},
		"unknown status": {`{"outcome":{"Status":"running","Reason":"never"}}`, Exit{}, fleet.Outcome{Status: fleet.TaskFailed, Reason: "never"}},
		"killed":         {"", Exit{Code: -1, Signal: "KILL"}, fleet.Outcome{Status: fleet.TaskFailed, Reason: "ended by signal KILL", Usage: used, CostUSD: 0.5, Turns: 1}},
		"crashed":        {"", Exit{Code: 2, Stderr: "panic: sk-secret"}, fleet.Outcome{Status: fleet.TaskFailed, Reason: "exit code 2", Usage: used, CostUSD: 0.5, Turns: 1}},
		"no outcome":     {"", Exit{}, fleet.Outcome{Status: fleet.TaskFailed, Reason: "the run ended without a result", Usage: used, CostUSD: 0.5, Turns: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pieces, p := parseAll(t, Format{Kind: "model"}, begin+c.end)
			require.Equal(t, []Piece{{Text: "one\n", Data: &fleet.Step{Type: fleet.StepText}}, {Step: true, Text: "shell: ls"}}, pieces)
			require.Equal(t, 1, p.(CallCounter).OpenCalls())
			require.Equal(t, c.want, p.Result(c.exit).Outcome)
		})
	}
}
