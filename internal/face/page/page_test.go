package page

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestBuildIsCurrent fails if dist was not built from the current sources. build.js computes the same hash.
func TestBuildIsCurrent(t *testing.T) {
	t.Parallel()
	names := []string{"index.html", "package-lock.json", "svelte.config.js", "vite.config.ts"}
	require.NoError(t, filepath.WalkDir("src", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !strings.HasPrefix(name, "src/gen/") { // only types, which are not in the build
			names = append(names, filepath.ToSlash(name))
		}
		return err
	}))
	slices.Sort(names)
	hash := sha256.New()
	for _, name := range names {
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		hash.Write([]byte(name + "\x00"))
		hash.Write(data)
	}
	got, err := dist.ReadFile("dist/sources.sha256")
	require.NoError(t, err)
	require.Equal(t, hex.EncodeToString(hash.Sum(nil)), strings.TrimSpace(string(got)), "the page is older than its sources: run `make page`")
}
