package driver

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

// TestFindObject checks where an object is found in the text of a message.
func TestFindObject(t *testing.T) {
	t.Parallel()
	nested := "{\n  \"items\": [\n    {\n      \"a\": 1\n    }\n  ]\n}"
	for text, want := range map[string]string{
		`{"a":1}`:             `{"a":1}`,
		" \n" + nested + "\n": nested,
		"Here:\n```json\n" + nested + "\n```\nDone.": nested,
		"{\"a\":1}\nbut better:\n{\"a\":2}":          `{"a":2}`,
		"It is {\"a\":1}.":                           "",
		"done":                                       "",
		"":                                           "",
		"}":                                          "",
		`[{"a":1}]`:                                  "",
		"{\"a\":\n{\"a\":\n{\"a\":\n}":               "",
		strings.Repeat("{\"a\":\n", 1e5) + "}":       "",
	} {
		require.Equal(t, want, string(FindObject(text)), text[:min(len(text), 100)])
	}
}

// TestOutputSchema checks how each driver passes the schema of a task to its program and finds the output.
func TestOutputSchema(t *testing.T) {
	t.Parallel()
	const schema = `{"type":"object","properties":{"n":{"type":"integer"}}}`
	j := Job{Agent: "papi", Prompt: "Count.", RunDir: "/runs/1", ClientCommand: []string{"fleet"}}.WithOptions(fleet.TaskOptions{OutputSchema: []byte(schema)})
	for kind, c := range map[string]struct {
		asked  string // in the arguments or files
		output string // of the program
	}{
		"claude": {`"--json-schema","{\"type\":\"object\"`, `{"type":"result","subtype":"success","result":"{\"n\":3}","structured_output":{"n":3}}
{"type":"result","subtype":"success","result":"The background task has ended."}`},
		"codex": {schema, `{"type":"turn.started"}
{"type":"item.completed","item":{"type":"agent_message","text":"{\"n\":3}"}}
{"type":"turn.completed","usage":{}}`},
		"acp": {`matches this JSON Schema:`, `{"type":"session","session":"s"}
{"type":"text","text":"Here it is:\n\n{\"n\":"}
{"type":"text","text":"3}\n"}
{"type":"turn","stop_reason":"end_turn"}`},
	} {
		d, err := New(Options{Kind: kind, Command: []string{"program"}})
		require.NoError(t, err)
		require.NoError(t, CheckOptions(d, j.Options))
		command, err := d.Command(j)
		require.NoError(t, err)
		all := strings.Join(command.Argv, " ")
		for _, f := range command.Files {
			all += f.Data
		}
		require.Contains(t, all, c.asked, kind)
		require.Equal(t, kind != "claude", command.Format.FindsOutput)
		_, p := parseAll(t, command.Format, c.output)
		o := p.Result(Exit{}).Outcome
		require.Equal(t, fleet.TaskCompleted, o.Status, "%s: %s", kind, o.Reason)
		require.JSONEq(t, `{"n":3}`, string(o.Output), kind)
	}
	_, p := parseAll(t, Format{Kind: "claude"}, `{"type":"result","subtype":"error_max_structured_output_retries","is_error":true}`)
	require.Equal(t, fleet.CodeOutputInvalid, p.Result(Exit{}).Outcome.ReasonCode)
}
