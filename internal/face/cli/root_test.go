package cli

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestToolsetsAreLeftOut checks that the toolsets' commands are left out only if the command line cannot need them.
func TestToolsetsAreLeftOut(t *testing.T) {
	t.Parallel()
	for line, needed := range map[string]bool{
		"":                                   true,
		"--help":                             true,
		"help":                               true,
		"help sessions":                      true,
		"help agent list":                    true,
		"sessions list":                      true,
		"-o json --server h:1 sessions list": true,
		"sesions list":                       true,
		"__complete s":                       true,
		"completion bash":                    true,
		"version":                            true,
		"agent list":                         false,
		"agent lst":                          false,
		"-o json --server h:1 task list":     false,
		"status --help":                      false,
		"token list":                         false,
	} {
		require.Equal(t, needed, newHandMade(Deps{}).needsToolsets(strings.Fields(line)), "fleet %s", line)
	}
}
