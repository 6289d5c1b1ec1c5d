package app

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestVersionOf(t *testing.T) {
	t.Parallel()
	commit := []debug.BuildSetting{{Key: "vcs.revision", Value: "df3559678939aa00bb11cc22dd33ee44ff556677"}, {Key: "vcs.modified", Value: "true"}}
	for want, info := range map[string]debug.BuildInfo{
		"v1.2.3":                   {Main: debug.Module{Version: "v1.2.3"}, Settings: commit},
		"devel-df3559678939-dirty": {Main: debug.Module{Version: "(devel)"}, Settings: commit},
		"devel":                    {Main: debug.Module{Version: "(devel)"}},
	} {
		require.Equal(t, want, versionOf(&info))
	}
}
