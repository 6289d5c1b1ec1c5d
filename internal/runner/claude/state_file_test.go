package claude

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTrust(t *testing.T) {
	for name, before := range map[string]string{
		"no file":          "",
		"an empty file":    " ",
		"a damaged file":   "{",
		"another type":     "[1]",
		"null":             `{"projects":null}`,
		"another project":  `{"projects":{"/other":{"hasTrustDialogAccepted":false}},"userID":"u"}`,
		"the same project": `{"projects":{"/work":{"hasTrustDialogAccepted":false,"allowedTools":["Bash"]}},"userID":"u"}`,
		"a null project":   `{"projects":{"/work":null}}`,
		"a text":           `{"projects":{"/work":"x"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			t.Setenv("CLAUDE_CONFIG_DIR", dir)
			path := filepath.Join(dir, ".claude.json")
			if before != "" {
				require.NoError(t, os.WriteFile(path, []byte(before), 0o600))
			}
			for _, trusted := range []bool{true, false} {
				require.NoError(t, setTrust("/work", trusted))
				data, err := os.ReadFile(path)
				require.NoError(t, err)
				var after struct {
					UserID   string
					Projects map[string]struct {
						HasTrustDialogAccepted bool
						AllowedTools           []string
					}
				}
				require.NoError(t, json.Unmarshal(data, &after))
				require.Equal(t, trusted, after.Projects["/work"].HasTrustDialogAccepted)
				switch name {
				case "the same project":
					require.Equal(t, []string{"Bash"}, after.Projects["/work"].AllowedTools)
					require.Equal(t, "u", after.UserID)
				case "another project":
					require.Contains(t, after.Projects, "/other")
				}
			}
		})
	}
}
