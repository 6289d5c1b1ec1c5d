package definition

import (
	"bytes"
	"compress/gzip"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// FuzzDefinition checks that Parse returns a definition with agents or a readable error for any document.
func FuzzDefinition(f *testing.F) {
	f.Add([]byte("version: 2\nagents:\n  root: {model: openai/gpt, instruction: hi, handoffs: [other]}\n  other: {model: openai/gpt}\n"))
	f.Add([]byte("agents: {root: {toolsets: [{type: mcp, ref: docker:x}]}}\nmodels: {m: {provider: openai, model: x, base_url: http://x}}\n"))
	f.Add([]byte("a: &a [*a]"))
	f.Fuzz(func(t *testing.T, document []byte) {
		if len(document) > 16<<10 {
			t.Skip()
		}
		d, err := Parse(document)
		if err != nil {
			require.True(t, utf8.ValidString(err.Error()))
			require.NotEmpty(t, err.Error())
			return
		}
		require.NotEmpty(t, d.Agents)
		_ = d.description()
	})
}

// FuzzUnpack checks that unpack limits the size of its result for any layer of an artifact.
func FuzzUnpack(f *testing.F) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write(bytes.Repeat([]byte("x"), MaxDocument+100))
	require.NoError(f, err)
	require.NoError(f, z.Close())
	f.Add(b.Bytes())
	f.Add([]byte("agents: {}"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := unpack(raw)
		require.True(t, err != nil || len(got) <= max(MaxDocument+1, len(raw)))
	})
}
