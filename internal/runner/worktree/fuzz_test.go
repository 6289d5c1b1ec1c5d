package worktree

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/runner/gitfiles"
)

// FuzzFiles checks that addFiles accepts any output, and lists at most fleet.MaxChangedFiles files.
func FuzzFiles(f *testing.F) {
	f.Add(":100644 100644 a b M\x00f\x00:100644 100644 a b R100\x00from\x00to\x001\t2\tf\x00-\t-\t\x00from\x00to\x00")
	f.Add(":\x00\x001\t")
	f.Fuzz(func(t *testing.T, out string) {
		c := &fleet.Changes{}
		addFiles(c, out)
		require.LessOrEqual(t, len(c.FileChanges), min(c.FileCount, fleet.MaxChangedFiles))
	})
}

// FuzzRefs checks that parseRefs returns only refs with valid object names.
func FuzzRefs(f *testing.F) {
	f.Add("0123456789012345678901234567890123456789\x00refs/heads/main\x00\x00/work\nx\x00refs/heads/x\x00\x00\n")
	f.Fuzz(func(t *testing.T, out string) {
		for _, r := range parseRefs(out) {
			require.True(t, gitfiles.IsOID(r.oid), r.oid)
		}
	})
}

// FuzzSettings checks that a view takes only plain settings from an agent's git configuration.
func FuzzSettings(f *testing.F) {
	f.Add([]byte("[core] autocrlf = true\n[Core \"x\"]\n\tfsmonitor = evil\n[core]filemode=\"false\"\n"))
	f.Add([]byte("[core]\nsymlinks = true\\\n[alias]\nx = !sh\n\x00"))
	plain := regexp.MustCompile(`^(\[[a-z]+\]\n\t[a-z]+ = [A-Za-z0-9]+\n)*$`)
	f.Fuzz(func(t *testing.T, text []byte) {
		require.Regexp(t, plain, viewConfig(gitfiles.ParseSettings(text), true))
	})
}
