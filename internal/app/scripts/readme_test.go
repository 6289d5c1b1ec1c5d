package scripts

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/app"
)

// TestReadme runs the commands of the README's first task, on other ports.
func TestReadme(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not installed")
	}
	cfg := app.DefaultConfig()
	cfg.HTTP, cfg.GRPC, cfg.Data = "127.0.0.1:0", "127.0.0.1:0", t.TempDir()
	server, stop, err := start(cfg)
	require.NoError(t, err)
	defer func() { require.NoError(t, stop()) }()
	bin := t.TempDir()
	self, err := os.Executable()
	require.NoError(t, err)
	require.NoError(t, os.Symlink(self, filepath.Join(bin, "fleet"))) // testscript.Main runs the command with this name

	script := firstTaskCommands(t)
	require.GreaterOrEqual(t, strings.Count(script, "\nfleet "), 3)
	require.GreaterOrEqual(t, strings.Count(script, "\ncurl "), 3)
	script = strings.ReplaceAll(script, "\ncurl ", "\ncurl --fail-with-body -sS ")
	script = strings.ReplaceAll(script, "127.0.0.1:8101", server.HTTPAddr())
	script += "\nfleet agent delete papi otto --yes" // no run may write into the directory of the test after its end
	cmd := exec.CommandContext(t.Context(), "bash", "-euc", script)
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "FLEET_SERVER="+server.GRPCAddr(), "GORACE=atexit_sleep_ms=0")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, want := range []string{"Agent 'papi' created", "Completed in", `"agent_name":"otto"`} {
		require.Contains(t, string(out), want)
	}
}

// firstTaskCommands returns the fleet and curl commands of the README's section "Your first task".
func firstTaskCommands(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("../../../README.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(b), "\n## Your first task\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	commands := regexp.MustCompile(`(?m)^    ((?:fleet|curl) .*)$`).FindAllStringSubmatch(section, -1)
	script := ""
	for _, c := range commands {
		script += "\n" + c[1]
	}
	return script
}
