package npm

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// tmuxWindow is a terminal of tmux. It shows the screen that a person would see.
type tmuxWindow struct{ socket string }

// openTmux runs the program in a new terminal, until it ends or the test does.
func openTmux(t *testing.T, env []string, dir string, argv ...string) *tmuxWindow {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Fatal("tmux is not on PATH: install it")
	}
	w := &tmuxWindow{socket: filepath.Join(dir, fmt.Sprintf("tmux-%08x", rand.Uint32()))}
	cmd := exec.CommandContext(t.Context(), "tmux", append([]string{"-S", w.socket, "-f", os.DevNull, "new-session", "-d", "-x", "160", "-y", "50", "--"}, argv...)...)
	cmd.Env, cmd.Dir = append(env, "TERM=xterm-256color", "LANG=C.UTF-8"), dir
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	t.Cleanup(func() { _ = exec.Command("tmux", "-S", w.socket, "kill-server").Run() })
	return w
}

// screen returns the text that the terminal shows. It returns "" if w is nil or the program has ended.
func (w *tmuxWindow) screen() string {
	if w == nil {
		return ""
	}
	out, _ := exec.Command("tmux", "-S", w.socket, "capture-pane", "-p").Output()
	return string(out)
}

// waitForText waits until the terminal shows the text.
func (w *tmuxWindow) waitForText(t *testing.T, text string) {
	t.Helper()
	require.Eventually(t, func() bool { return strings.Contains(w.screen(), text) }, defaultTimeout, 50*time.Millisecond, "not on the screen: %s", lazyString(w.screen))
}

// pressKeys presses keys, given by tmux's names for them, such as Enter.
func (w *tmuxWindow) pressKeys(t *testing.T, keys ...string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "tmux", append([]string{"-S", w.socket, "send-keys"}, keys...)...).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// paste inserts the text as a terminal does when a person pastes it.
func (w *tmuxWindow) paste(t *testing.T, text string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "tmux", "-S", w.socket, "set-buffer", "--", text, ";", "paste-buffer", "-dp").CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// waitForEnd waits until the program in the terminal has ended.
func (w *tmuxWindow) waitForEnd(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool { return exec.Command("tmux", "-S", w.socket, "has-session").Run() != nil }, defaultTimeout, 50*time.Millisecond, "the program still runs: %s", lazyString(w.screen))
}

// lazyString is a string that is computed when it is printed.
type lazyString func() string

func (l lazyString) String() string { return l() }
