package app

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRunnerDownloads checks that fleet-runner and its checksum can be downloaded, but no other file of the directory.
func TestRunnerDownloads(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "fleet-runner-linux-arm64"), []byte("a program"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "secret"), []byte("a secret"), 0o600))
	downloads := newRunnerDownloads(dir)
	ask := func(method, path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		downloads.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, nil))
		return w
	}
	sum := sha256.Sum256([]byte("a program"))
	w := ask(http.MethodGet, "/runner/linux-arm64")
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, "a program", w.Body.String())
	require.Equal(t, `"`+hex.EncodeToString(sum[:])+`"`, w.Header().Get("ETag"))
	require.Equal(t, hex.EncodeToString(sum[:])+"  fleet-runner-linux-arm64\n", ask(http.MethodGet, "/runner/linux-arm64.sha256").Body.String())
	require.NoError(t, os.WriteFile(filepath.Join(dir, "fleet-runner-linux-arm64"), []byte("another program"), 0o700))
	sum = sha256.Sum256([]byte("another program"))
	require.Equal(t, `"`+hex.EncodeToString(sum[:])+`"`, ask(http.MethodHead, "/runner/linux-arm64").Header().Get("ETag"), "the file was replaced")
	for path, says := range map[string]string{
		"/runner/linux-amd64":           "does not have fleet-runner-linux-amd64",
		"/runner/../secret":             "ask for linux-amd64 or linux-arm64",
		"/runner/linux-arm64/../secret": "ask for linux-amd64 or linux-arm64",
		"/runner/":                      "ask for linux-amd64 or linux-arm64",
	} {
		w := ask(http.MethodGet, path)
		require.Equal(t, http.StatusNotFound, w.Code, path)
		require.Contains(t, w.Body.String(), says)
	}
	require.Equal(t, http.StatusMethodNotAllowed, ask(http.MethodPost, "/runner/linux-arm64").Code)
}
