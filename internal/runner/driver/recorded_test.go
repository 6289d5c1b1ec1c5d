package driver

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestRecorded parses recorded output of real programs, and compares everything that the parsers find in it with the golden files. The
// tests of package npm write the recordings if they run with -update.
func TestRecorded(t *testing.T) {
	t.Parallel()
	recordings, err := filepath.Glob("testdata/recorded/*.jsonl")
	require.NoError(t, err)
	require.NotEmpty(t, recordings)
	for _, path := range recordings {
		name := strings.TrimSuffix(filepath.Base(path), ".jsonl")
		t.Run(name, func(t *testing.T) {
			f := Format{Kind: "acp", Program: name}
			if name == "claude" || name == "codex" {
				f.Kind = name
			}
			output, err := os.ReadFile(path)
			require.NoError(t, err)
			pieces, p := parseAll(t, f, string(output))
			result := p.Result(Exit{})
			var found bytes.Buffer
			lines := json.NewEncoder(&found)
			for _, piece := range pieces {
				switch {
				case piece.Data != nil:
					require.NoError(t, lines.Encode(map[string]any{"shown": piece.Text, "step": piece.Data}))
				case piece.Text != "":
					require.NoError(t, lines.Encode(map[string]any{"shown": piece.Text}))
				}
			}
			result.Outcome.Payload = nil // a text that the lines before already contain
			require.NoError(t, lines.Encode(result))
			golden := "testdata/recorded/" + name + ".golden"
			if *update {
				require.NoError(t, os.WriteFile(golden, found.Bytes(), 0o600))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			require.Equal(t, string(want), found.String(), "run the test with -update and read the difference")
		})
	}
}
