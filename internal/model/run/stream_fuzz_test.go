//go:build cgo

package run

import (
	"bytes"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// madeIDPattern matches the ids that are made for tool calls without one.
var madeIDPattern = regexp.MustCompile(`call_[A-Z2-7]{26}`)

// FuzzModelStream reads a stream of a model API, in one piece and in two. Both must give the same usage, which is not
// negative, and the same text.
func FuzzModelStream(f *testing.F) {
	f.Add([]byte("event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":3}}}\n\ndata: {\"type\":\"message_stop\"}\n\n"), 20)
	f.Add([]byte("data: {\"choices\":[{\"finish_reason\":\"stop\"}]}\r\n\r\ndata: [DONE]\r\n\r\n"), 7)
	f.Add([]byte("data: {\"choices\":[{\"delta\":{\"content\":[{\"type\":\"text\",\"text\":\"hi\"}],\"tool_calls\":[{\"function\":{\"name\":\"f\"}}]}}],\"error\":null}\n\n"), 3)
	f.Add([]byte("data: {\"candidates\":[{\"finishReason\":\"STOP\"}]}\n\ndata: {\"error\":1}\n"), 0)
	f.Fuzz(func(t *testing.T, stream []byte, at int) {
		if at < 0 || at > len(stream) || len(stream) > maxEventSize/2 {
			t.Skip()
		}
		read := func(parts ...io.Reader) (*answerBody, string, bool) {
			a := &answerBody{ReadCloser: io.NopCloser(io.MultiReader(parts...)), request: &http.Request{URL: &url.URL{Host: "model"}}, exchange: &exchange{}, isStream: true}
			text, err := io.ReadAll(struct{ io.Reader }{a})
			return a, madeIDPattern.ReplaceAllString(string(text), ""), err == nil
		}
		whole, text, ok := read(bytes.NewReader(stream))
		split, splitText, splitOK := read(bytes.NewReader(stream[:at]), bytes.NewReader(stream[at:]))
		require.Equal(t, text, splitText)
		require.Equal(t, ok, splitOK)
		require.Equal(t, whole.converter.ended, split.converter.ended)
		require.Equal(t, whole.exchange.usage, split.exchange.usage)
		if u := whole.exchange.usage; u != nil {
			require.GreaterOrEqual(t, min(u.input, u.output, u.cached, u.written), int64(0))
		}
	})
}
