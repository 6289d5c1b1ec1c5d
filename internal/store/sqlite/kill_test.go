package sqlite_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/store/sqlite/sqlitetest"
)

// childPathEnv names the environment variable that makes the test program a child process. Its value is the path of the
// store's file.
const childPathEnv = "FLEET_TEST_CHILD_PATH"

// TestKill kills a process that commits events. The file must have the last event that the process has reported as committed,
// and must not be damaged.
func TestKill(t *testing.T) {
	if path := os.Getenv(childPathEnv); path != "" {
		writeForever(t, path)
	}
	t.Parallel()
	path := filepath.Join(t.TempDir(), "fleet.db")
	require.NoError(t, sqlitetest.Create(path))
	for range 3 {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKill$")
		child.Env = append(os.Environ(), childPathEnv+"="+path)
		child.Stderr = os.Stderr
		out, err := child.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, child.Start())

		var last string
		lines := bufio.NewScanner(out)
		for n := 0; lines.Scan(); n++ {
			last = lines.Text()
			if n == 50 {
				require.NoError(t, child.Process.Kill())
			}
		}
		require.Error(t, child.Wait())
		require.NotEmpty(t, last)

		s := openAt(t, path)
		require.NoError(t, s.View(t.Context(), func(tx fleet.ReadTx) error {
			events, err := tx.Events(fleet.EventFilter{AgentUID: "child"}, fleet.EventWindow{Newest: true, Limit: 2}) // the child may have died before it reported its newest event
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
		var result string
		require.NoError(t, openRaw(t, path).QueryRow("PRAGMA integrity_check").Scan(&result))
		require.Equal(t, "ok", result)
		require.NoError(t, s.Close())
	}
}

// writeForever appends events to the store in the file and prints the text of each event after its commit.
func writeForever(t *testing.T, path string) {
	s := openAt(t, path)
	for n := 1; ; n++ {
		e := &fleet.Event{Type: fleet.EventTaskOutput, AgentUID: "child", Text: strconv.Itoa(n)}
		require.NoError(t, s.Update(t.Context(), func(tx fleet.Tx) error { return tx.Append(e) }))
		fmt.Println(e.Text)
	}
}
