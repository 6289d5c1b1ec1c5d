package sqlite_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

// childPath names the environment variable with the file that a child process writes to until it is killed.
const childPath = "FLEET_TEST_CHILD_PATH"

// TestKill kills a process during its commits while another process writes to the same file. The file must have
// everything that the killed process has reported as committed, and must not be damaged.
func TestKill(t *testing.T) {
	if path := os.Getenv(childPath); path != "" {
		writeForever(t, path)
	}
	t.Parallel()
	s := open(t)
	for range 3 {
		signal, cancel := s.Subscribe()
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKill$")
		child.Env = append(os.Environ(), childPath+"="+s.path)
		child.Stderr = os.Stderr
		out, err := child.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, child.Start())

		<-signal // a commit of the child, because no other process writes yet
		cancel()
		var last string
		said := bufio.NewScanner(out)
		for n := 0; said.Scan(); n++ {
			last = said.Text()
			switch {
			case n < 50:
				appendEvent(t, s)
			case n == 50:
				require.NoError(t, child.Process.Kill())
			}
		}
		require.Error(t, child.Wait())
		require.NotEmpty(t, last)

		require.NoError(t, s.View(t.Context(), func(tx fleet.ReadTx) error {
			events, err := tx.LastEvents(fleet.EventFilter{AgentUID: "child"}, 2) // the child may have died before it reported its newest event
			require.NoError(t, err)
			require.Contains(t, []string{events[0].Text, events[1].Text}, last)
			newest, err := tx.LastSeq()
			require.NoError(t, err)
			got, err := s.LastSeq(t.Context())
			require.NoError(t, err)
			require.Equal(t, newest, got)
			return nil
		}))
		before, err := s.LastSeq(t.Context())
		require.NoError(t, err)
		require.Greater(t, appendEvent(t, s), before, "the killed process must not leave a lock")
		var sound string
		require.NoError(t, raw(t, s.path).QueryRow("PRAGMA integrity_check").Scan(&sound))
		require.Equal(t, "ok", sound)
	}
}

func writeForever(t *testing.T, path string) {
	s := openAt(t, path)
	for n := 1; ; n++ {
		e := &fleet.Event{Type: fleet.EventTaskOutput, AgentUID: "child", Text: strconv.Itoa(n)}
		require.NoError(t, s.Update(t.Context(), func(tx fleet.Tx) error { return tx.Append(e) }))
		fmt.Println(e.Text)
	}
}
