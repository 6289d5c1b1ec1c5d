package mcp_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"fleet/internal/face/mcp"
	"fleet/internal/waittest"
)

func TestResultIsReadSeparatelyFromProgress(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func() (read, write *os.File){
		"pipe": func() (*os.File, *os.File) {
			r, w, err := os.Pipe()
			require.NoError(t, err)
			return r, w
		},
		"socket": func() (*os.File, *os.File) { // as Node starts its children
			fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			require.NoError(t, err)
			return os.NewFile(uintptr(fds[0]), "read"), os.NewFile(uintptr(fds[1]), "write")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			read, write := open()
			in, ask := io.Pipe()
			done := make(chan error, 1)
			go func() {
				done <- mcp.Stdio(t.Context(), connTo(newStub()), mcp.Config{MaxSilence: waittest.Limit, DrainTimeout: waittest.Limit}, in, write)
				_ = write.Close()
			}()
			buffer := make([]byte, 1<<20)
			for i := range 50 {
				_, err := fmt.Fprintf(ask, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"create_agent","arguments":{"name":"a%d","project":"p","spec":"s"},%s}}`+"\n", i, i, modernParams)
				require.NoError(t, err)
				for progress := 0; ; {
					n, err := read.Read(buffer)
					require.NoError(t, err)
					got := buffer[:n]
					news := bytes.Count(got, []byte(`"notifications/progress"`))
					progress += news
					if strings.Contains(string(got), `"structuredContent"`) {
						require.Zero(t, news, "the client must not read progress and result together")
						require.Equal(t, eventsOfCall, progress)
						break
					}
				}
			}
			require.NoError(t, ask.Close())
			require.NoError(t, <-done)
			require.NoError(t, read.Close())
		})
	}
}
