package question

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzServe checks that the server of tools answers each message with valid JSON or not at all.
func FuzzServe(f *testing.F) {
	f.Add([]byte(`{"id":1,"method":"initialize","params":{"protocolVersion":"x"}}` + "\n" + `{"id":"a","method":"tools/list"}`))
	f.Add([]byte(`{"id":{},"method":"tools/call","params":{"name":"ask_user","arguments":{"question":1}}}` + "\n" + `{"method":"notifications/cancelled","params":{"requestId":{}}}`))
	dir := f.TempDir() // without a supervisor
	f.Fuzz(func(t *testing.T, in []byte) {
		var out bytes.Buffer
		require.NoError(t, NewServer(dir).Serve(t.Context(), bytes.NewReader(in), &out))
		for line := range bytes.Lines(out.Bytes()) {
			require.True(t, json.Valid(line), "%q", line)
		}
	})
}
