package acp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzPermission checks that the policy allows a tool call only if a rule covers the call, for any form of the call.
func FuzzPermission(f *testing.F) {
	for _, c := range []string{
		`{"toolCallId":"1","kind":"execute","rawInput":{"command":"git log -1"}}`,
		`{"toolCallId":"1","kind":"execute","rawInput":{"command":["bash","-lc","git log; rm -rf /"]}}`,
		`{"toolCallId":"1","kind":"edit","locations":[{"path":"/work/../etc/passwd"}],"content":[{"type":"diff","path":"a"}]}`,
		`{"toolCallId":"1","kind":"edit","rawInput":{"file_path":"/work/a"},"_meta":{"claudeCode":{"toolName":"Bash"}}}`,
		`{"toolCallId":"1","title":"bash","kind":"other","rawInput":{"cmd":1,"command":""},"content":{}}`,
	} {
		f.Add([]byte(c))
	}
	p := Policy{Allow: []string{"Bash(git log *)"}, Deny: []string{"fetch"}, Edits: true, dir: "/work"}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var c call
		if json.Unmarshal(raw, &c) != nil {
			return
		}
		c.fillFrom(call{}) // there was no update before the request
		switch allowed, _, why := p.decide(c); {
		case !allowed:
		case strings.HasPrefix(why, "allowed by"):
			require.NotEmpty(t, c.subjects())
			for _, s := range c.subjects() {
				parts, ok := []string{s}, true
				if c.Kind == "execute" {
					parts, ok = splitCommands(s)
				}
				require.True(t, ok, s)
				for _, part := range parts {
					require.True(t, strings.HasPrefix(part+" ", "git log "), s)
				}
			}
		default:
			require.Equal(t, "edit", c.Kind)
			for _, path := range append(c.subjects(), c.changedFiles()...) {
				if !filepath.IsAbs(path) {
					path = filepath.Join(p.dir, path)
				}
				require.True(t, strings.HasPrefix(filepath.Clean(path)+"/", "/work/"), path)
			}
		}
	})
}

// FuzzUpdates checks that any output of a program becomes lines of JSON, for the connection and for the run's output.
// It also checks that only reported tool calls are open.
func FuzzUpdates(f *testing.F) {
	const update = `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":`
	f.Add([]byte(update + `{"sessionUpdate":"tool_call","toolCallId":"1","title":"ls","status":"pending"}}}` + "\n" + update + `{"sessionUpdate":"tool_call_update","toolCallId":"1","status":"completed"}}}`))
	f.Add([]byte(update + `{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"\ud800"}}}}` + "\nnot JSON\n{}"))
	f.Add([]byte(update + `{"sessionUpdate":"tool_call","toolCallId":["1"],"content":[{"type":"diff"}],"rawOutput":null}}}`))
	f.Add([]byte("\x00\n\n[]"))
	f.Fuzz(func(t *testing.T, programOutput []byte) {
		var out bytes.Buffer
		calls, begun := NewCalls(), 0
		c := &client{job: &Job{}, out: &output{to: &out}, calls: map[string]call{}}
		r := &lineReader{lines: bufio.NewReader(bytes.NewReader(programOutput)), onClaudeEvent: c.passClaudeEvent, onUpdate: func(params json.RawMessage) {
			c.handleUpdate(params)
			var p struct{ Update json.RawMessage }
			if json.Unmarshal(params, &p) == nil {
				if tool, _, _, _ := calls.Update(p.Update); tool != nil {
					begun++
				}
				require.LessOrEqual(t, calls.OpenCount(), begun)
			}
		}}
		forConnection, err := io.ReadAll(r)
		require.NoError(t, err)
		c.out.flush()
		for _, lines := range [][]byte{forConnection, out.Bytes()} {
			for line := range bytes.Lines(lines) {
				require.True(t, json.Valid(line), "%q", line)
			}
		}
		require.LessOrEqual(t, len(r.unknownLine()), maxUnknownKept)
	})
}
