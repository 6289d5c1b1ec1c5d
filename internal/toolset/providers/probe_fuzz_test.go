package providers

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzModels checks that no answer of a model API puts a line break or an escape character into the result of a probe.
func FuzzModels(f *testing.F) {
	f.Add([]byte(`{"models":[{"name":"llama3:latest"}]}`))
	f.Add([]byte(`{"data":[{"id":"gpt"},{"id":"a\nb\u001b[31m"}]}`))
	f.Add([]byte(`{"models":null,"data":[]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		names, ok := modelsOf(body)
		require.True(t, ok || names == nil)
		for _, name := range names {
			require.False(t, strings.ContainsAny(name, "\n\r\x1b"), "%q", name)
		}
		_ = modelsText(names)
	})
}
