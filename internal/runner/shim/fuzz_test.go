package shim

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// FuzzModelRequests checks that what is passed on of a program's output does not depend on how it is split.
func FuzzModelRequests(f *testing.F) {
	f.Add([]byte("{\"type\":\"stream_event\",\"event\":{\"type\":\"message_start\"}}\ntext\n{\"type\":\"s"), 3)
	f.Add([]byte("{\"type\":\"system\",\"subtype\":\"status\",\"status\":1}\n\n\x00"), 1)
	f.Fuzz(func(t *testing.T, data []byte, size int) {
		var whole, split bytes.Buffer
		r := newModelRequests(&whole)
		_, err := r.Write(data)
		require.NoError(t, err)
		r.flush()
		r = newModelRequests(&split)
		for rest := data; len(rest) > 0; {
			n := min(max(size, 1), len(rest))
			_, err := r.Write(rest[:n])
			require.NoError(t, err)
			rest = rest[n:]
		}
		r.flush()
		require.Equal(t, whole.String(), split.String())
	})
}

// FuzzShown checks that the input of any tool is shown as a valid object, or not at all.
func FuzzShown(f *testing.F) {
	f.Add([]byte(`{"command":"ls","n":1,"a":{"b":null}}`))
	f.Add([]byte(`{"\u0000":"\ud800","a":"` + string(bytes.Repeat([]byte("x"), maxValue+1)) + `"}`))
	f.Add([]byte(`[1]`))
	f.Fuzz(func(t *testing.T, input []byte) {
		got := shown(input)
		if got == nil {
			return
		}
		require.True(t, utf8.Valid(got))
		require.NoError(t, json.Unmarshal(got, &map[string]any{}))
	})
}
