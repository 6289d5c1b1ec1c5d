package cli

import (
	"bytes"
	"testing"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"
)

// TestBottomLine checks that progress does not overwrite a question while the person types the answer, and that other lines hide
// neither of them.
func TestBottomLine(t *testing.T) {
	t.Parallel()
	keyboard, tty, err := pty.Open()
	require.NoError(t, err)
	defer func() { _, _ = keyboard.Close(), tty.Close() }()
	var out bytes.Buffer
	env := map[string]string{"TERM": "xterm", "COLUMNS": "80"}
	s := &screen{stderr: &out, errTerminal: terminalOf(tty, func(key string) string { return env[key] })}
	s.setProgress("working 1s")
	s.prompt("Sure? ")
	s.setProgress("working 2s")
	s.printErrLine("a note")
	s.setProgress("working 3s")
	s.endPrompt()
	require.Equal(t, "\rworking 1s\x1b[K"+"\r\x1b[K"+"Sure? "+"\na note\n"+"Sure? "+"\rworking 3s\x1b[K", out.String())

	out.Reset()
	(&session{program: newProgram(Deps{Stderr: &out}), screen: s}).printError(&failure{message: "no"})
	require.Equal(t, "\r\x1b[K"+"fleet: no\n"+"\rworking 3s\x1b[K", out.String(), "errors are not written on the line of the progress")

	out.Reset()
	s.setProgress("")
	s.prompt("Sure? ")
	s.cancelPrompt()
	require.Equal(t, "\r\x1b[K"+"Sure? "+"\n", out.String())
}
