package cli

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestVersionSaysWhatTheBuildLacks(t *testing.T) {
	t.Parallel()
	version := func(lacks string, args ...string) string {
		var out bytes.Buffer
		require.Zero(t, Run(t.Context(), append([]string{"version"}, args...), Deps{Version: "v1.2.3", MissingFeatures: lacks, Stdout: &out}))
		return out.String()
	}
	require.NotContains(t, version(""), "lacks")
	require.Contains(t, version("model agents"), "\nlacks: model agents\n")
	require.Equal(t, "v1.2.3\n", version("model agents", "--quiet"))
	require.Contains(t, version("model agents", "--output", "json"), `"lacks": "model agents"`)
}
