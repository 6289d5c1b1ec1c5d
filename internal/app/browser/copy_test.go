package browser

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	fleetv1 "fleet/gen/fleet/v1"
)

// TestCopy runs the command lines that the page copies to the clipboard. The first creates an agent, and the second starts a task on
// the agent with curl.
func TestCopy(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	b := openAt(t, s.home, "/")
	b.press("Create the first agent")
	b.waitForText("coder")
	b.fill("Name", "papi")
	b.fill("What the agent is for", "It's a \"test\" of $HOME; --quoting")
	b.sh(s, b.copiedText("command"))
	r, err := s.api.ShowAgent(t.Context(), &fleetv1.ShowAgentRequest{AgentName: "papi"})
	require.NoError(t, err)
	require.Equal(t, `It's a "test" of $HOME; --quoting`, r.GetAgent().GetSpec())

	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not installed")
	}
	b.goTo("/agents/papi")
	b.waitForText("Next task")
	b.fill("Next task", `echo "It's done"; exit 0`)
	b.sh(s, b.copiedText("curl"))
	b.waitForText("It's done")
	b.waitForText("completed")
}

// copiedText presses the button, and returns the text that the page writes to the clipboard.
func (b *tab) copiedText(button string) string {
	b.t.Helper()
	eval[bool](b, `Object.defineProperty(navigator, 'clipboard', {configurable: true, value: {writeText: async text => { window.copied = text }}}), true`)
	eval[bool](b, `document.querySelectorAll('details').forEach(d => d.open = true), true`)
	b.press(button)
	require.NoError(b.t, b.waitUntil(`() => !!window.copied`))
	text := eval[string](b, `window.copied`)
	eval[bool](b, `delete window.copied`)
	return text
}

// sh runs the line in a shell that has the fleet command.
func (b *tab) sh(s *server, line string) {
	b.t.Helper()
	dir := b.t.TempDir()
	require.NoError(b.t, os.WriteFile(filepath.Join(dir, "fleet"), []byte("#!/bin/sh\nexec '"+os.Args[0]+"' \"$@\"\n"), 0o755)) //nolint:gosec // a program
	cmd := exec.CommandContext(b.t.Context(), "sh", "-c", line)
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "FLEET_SERVER="+s.cfg.GRPC, "HOME="+dir)
	out, err := cmd.CombinedOutput()
	require.NoError(b.t, err, "%s\n%s", line, out)
}
