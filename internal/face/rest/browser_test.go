package rest

import (
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAPIPageInABrowser renders /docs in the Chromium that FLEET_TEST_CHROMIUM names, which can reach only the server's own
// address. If FLEET_TEST_SCREENSHOT is set, it saves a screenshot to the file of that name.
func TestAPIPageInABrowser(t *testing.T) {
	browser := os.Getenv("FLEET_TEST_CHROMIUM")
	if browser == "" {
		t.Skip("set FLEET_TEST_CHROMIUM to the path of a Chromium to run this test")
	}
	server := httptest.NewServer(newTestFace(t, newStub(), Config{}))
	defer server.Close()
	flags := []string{
		"--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1200,1600",
		"--user-data-dir=" + t.TempDir(), "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
		"--virtual-time-budget=20000",
	}
	page, err := exec.Command(browser, append(flags, "--dump-dom", server.URL+"/docs")...).Output()
	require.NoError(t, err)
	for _, words := range []string{"Create a new agent in a workspace of its own", "/v1/agents/{agent_name}/tasks:stop", "Authorize"} {
		require.Contains(t, string(page), words)
	}
	if picture := os.Getenv("FLEET_TEST_SCREENSHOT"); picture != "" {
		picture, err := filepath.Abs(picture)
		require.NoError(t, err)
		require.NoError(t, exec.Command(browser, append(flags, "--screenshot="+picture, server.URL+"/docs")...).Run())
	}
}
