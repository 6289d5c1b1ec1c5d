package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	fleetv1 "fleet/gen/fleet/v1"
)

// servePayload returns a server with the task t-1 and its payload.
func servePayload(t *testing.T, payload, encoding string) string {
	t.Helper()
	s := newStub(t)
	s.tasks = append(s.tasks, &fleetv1.TaskDetail{Id: "t-1", Status: fleetv1.Task_completed, Payload: &payload, PayloadEncoding: &encoding})
	server, _ := s.listen(t, "")
	return server
}

const longPayload = "the result\nin full: \x1b[31mred\x1b[0m日本\n"

func TestTaskDownload(t *testing.T) {
	t.Parallel()
	server := servePayload(t, longPayload, "")
	file := filepath.Join(t.TempDir(), "result.txt")
	for _, args := range [][]string{{"task", "download", "t-1"}, {"task", "show", "t-1", "--payload"}} {
		out, _ := mustRun(t, server, args...)
		require.Equal(t, longPayload, out)
	}
	out, stderr := mustRun(t, server, "task", "download", "t-1", "-o", file)
	require.Empty(t, out)
	require.Equal(t, "Wrote 39 bytes to "+file+".\n", stderr)
	requireOnlyFile(t, file, longPayload)

	_, stderr, code := runFleet(server, "task", "download", "t-2", "-o", file+".2")
	require.Equal(t, ExitNotFound, code, stderr)
	requireOnlyFile(t, file, longPayload)
	_, stderr, code = runFleet(server, "task", "download", "t-1", "-o", "json")
	require.Equal(t, ExitUsage, code, stderr)
	require.Contains(t, stderr, "./json")
	_, stderr, code = runFleet(server, "task", "download", "t-1", "-o", filepath.Join(file, "x"))
	require.Equal(t, ExitUsage, code)
	require.Contains(t, stderr, "cannot write the file")
}

func TestTaskDownloadIsExact(t *testing.T) {
	t.Parallel()
	server := servePayload(t, "H4sIAAAA/w==", "base64") // begins like gzip data
	out, _ := mustRun(t, server, "task", "download", "t-1")
	require.Equal(t, "\x1f\x8b\x08\x00\x00\x00\xff", out)
}

func TestTaskDownloadResumes(t *testing.T) {
	t.Parallel()
	server := servePayload(t, longPayload, "")
	for name, part := range map[string]struct{ left, says string }{
		"a part":            {longPayload[:20], "Wrote 39 bytes"},
		"the whole payload": {longPayload, "Wrote 39 bytes"},
		"another text":      {"something", "not the beginning of this payload"},
		"a longer text":     {"something" + longPayload, "not the beginning of this payload"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "result.txt")
			require.NoError(t, os.WriteFile(file+".part", []byte(part.left), 0o600))
			_, stderr := mustRun(t, server, "task", "download", "t-1", "-o", file)
			require.Contains(t, stderr, part.says)
			requireOnlyFile(t, file, longPayload)
		})
	}
}

// TestTaskDownloadKeepsAPart checks that a wrong argument, other than the offset, does not empty the file of an interrupted download.
func TestTaskDownloadKeepsAPart(t *testing.T) {
	t.Parallel()
	server := servePayload(t, longPayload, "")
	file := filepath.Join(t.TempDir(), "result.txt")
	require.NoError(t, os.WriteFile(file+".part", []byte(longPayload[:20]), 0o600))
	_, stderr, code := runFleet(server, "task", "download", strings.Repeat("t", 200), "-o", file)
	require.Equal(t, ExitUsage, code, stderr)
	requireOnlyFile(t, file+".part", longPayload[:20])
}

// TestInterruptedTaskDownload checks that an interrupted download keeps what has arrived, and that the same command completes the file. With
// enough time to reconnect, one command requests the missing parts itself.
func TestInterruptedTaskDownload(t *testing.T) {
	t.Parallel()
	server := servePayload(t, longPayload, "")
	file := filepath.Join(t.TempDir(), "result.txt")
	conn := &breakingConn{messages: 2, breaks: 99}
	c := newCommand(server)
	c.dial, c.reconnectTime = conn.dial, time.Millisecond
	require.NotEqual(t, ExitOK, c.run("task", "download", "t-1", "-o", file))
	require.Contains(t, c.stderr.String(), "continues from there")
	require.NoFileExists(t, file)
	left, err := os.ReadFile(file + ".part")
	require.NoError(t, err)
	require.Equal(t, longPayload[:20], string(left))

	mustRun(t, server, "task", "download", "t-1", "-o", file)
	requireOnlyFile(t, file, longPayload)

	c, conn.streams = newCommand(server), 0 // this command has enough time to reconnect
	c.dial = conn.dial
	require.Equal(t, ExitOK, c.run("task", "download", "t-1", "-o", file), c.stderr.String())
	require.Equal(t, 3, conn.streams)
	requireOnlyFile(t, file, longPayload)
}
