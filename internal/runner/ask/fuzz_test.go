package ask

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzServe checks that the server of tools answers each message with valid JSON or not at all. It also checks that the
// server allows nothing while nobody can be asked.
func FuzzServe(f *testing.F) {
	f.Add([]byte(`{"id":1,"method":"initialize","params":{"protocolVersion":"x"}}` + "\n" + `{"id":"a","method":"tools/list"}`))
	f.Add([]byte(`{"id":1,"method":"tools/call","params":{"name":"approve","arguments":{"tool_name":"Bash","input":{"command":"ls"}},"_meta":{"progressToken":[1]}}}`))
	f.Add([]byte(`{"id":1,"method":"tools/call","params":{"name":"approve","arguments":{"tool_name":"AskUserQuestion","input":{"questions":[{"question":"a","options":[{"label":"b"}]}]}}}}`))
	f.Add([]byte(`{"id":{},"method":"tools/call","params":{"name":"ask_user","arguments":{"question":1}}}` + "\n" + `{"method":"notifications/cancelled","params":{"requestId":{}}}`))
	dir := f.TempDir() // without a supervisor
	f.Fuzz(func(t *testing.T, in []byte) {
		var out bytes.Buffer
		s := &server{run: dir, approves: true, out: &out}
		require.NoError(t, s.serve(t.Context(), bytes.NewReader(in)))
		for line := range bytes.Lines(out.Bytes()) {
			var answer struct {
				Result struct{ Content []struct{ Text string } }
			}
			require.NoError(t, json.Unmarshal(line, &answer), "%q", line)
			for _, c := range answer.Result.Content {
				require.False(t, strings.HasPrefix(c.Text, `{"behavior":"allow"`), "%q", line)
			}
		}
	})
}
