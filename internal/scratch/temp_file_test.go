package scratch

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestCreateTemp checks that CreateTemp removes only old files for the same path.
func TestCreateTemp(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "token")
	oldFile, err := CreateTemp(path)
	require.NoError(t, err)
	otherPathFile, err := CreateTemp(filepath.Join(filepath.Dir(path), "tok"))
	require.NoError(t, err)
	oldTime := time.Now().Add(-2 * maxTempAge)
	require.NoError(t, os.Chtimes(oldFile.Name(), oldTime, oldTime))
	require.NoError(t, os.Chtimes(otherPathFile.Name(), oldTime, oldTime))
	f, err := CreateTemp(path)
	require.NoError(t, err)
	again, err := CreateTemp(path)
	require.NoError(t, err)
	require.NoFileExists(t, oldFile.Name())
	require.FileExists(t, otherPathFile.Name())
	require.FileExists(t, f.Name())
	info, err := again.Stat()
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
}
