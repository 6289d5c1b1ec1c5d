package browser

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// exampleRepository returns a repository for agents to work in.
func exampleRepository(t *testing.T) string {
	t.Helper()
	source := "package basket\n\nimport \"fmt\"\n\n// Product is something to buy.\ntype Product struct {\n\tName  string\n\tPrice float64\n}\n\n" +
		"// Total returns what the products cost.\nfunc Total(products []Product) float64 {\n\tvar total float64\n\tfor _, p := range products {\n\t\ttotal += p.Price\n\t}\n\treturn total\n}\n\n" +
		"func (p Product) String() string { return fmt.Sprintf(\"%s: %.2f\", p.Name, p.Price) }\n"
	return newRepository(t, "basket.go", source)
}

// newRepository returns a repository with one commit of the file.
func newRepository(t *testing.T, name, content string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644))
	for _, args := range [][]string{
		{"init", "-q", "-b", "main"},
		{"add", "-A"},
		{"-c", "user.name=test", "-c", "user.email=test@example.com", "commit", "-q", "-m", "first"},
	} {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	return dir
}
