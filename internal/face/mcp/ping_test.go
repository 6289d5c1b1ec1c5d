package mcp_test

import (
	"bufio"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/face/mcp"
	"fleet/internal/waittest"
)

// exchange runs Stdio for a client that answers pings if answers is set. The client sends each message after the result of the one
// before. exchange returns what the client receives, in order: "ping", "progress" or "result" for each message.
func exchange(t *testing.T, answers bool, messages ...string) []string {
	t.Helper()
	in, write := io.Pipe()
	read, out := io.Pipe()
	s := newStub()
	done := make(chan error, 1)
	go func() {
		done <- mcp.Stdio(t.Context(), connTo(s), mcp.Config{MaxSilence: waittest.Limit}, in, out)
		_ = out.Close()
	}()
	var got []string
	lines := bufio.NewScanner(read)
	lines.Buffer(nil, 1<<20)
	for _, m := range messages {
		_, err := io.WriteString(write, m+"\n")
		require.NoError(t, err)
		for lines.Scan() {
			l := lines.Text()
			if _, after, ok := strings.Cut(l, `"id":"ping-`); ok {
				got = append(got, "ping")
				n, _, _ := strings.Cut(after, `"`)
				if answers {
					_, err := io.WriteString(write, `{"jsonrpc":"2.0","id":"ping-`+n+`","result":{}}`+"\n")
					require.NoError(t, err)
				}
				continue
			}
			if strings.Contains(l, `"notifications/progress"`) {
				got = append(got, "progress")
				continue
			}
			got = append(got, "result")
			break
		}
	}
	require.NoError(t, write.Close())
	require.False(t, lines.Scan())
	require.NoError(t, <-done)
	return got
}

// progressOfCall has a word for each progress notification of one call, as exchange returns them.
var progressOfCall = strings.Repeat(" progress", eventsOfCall) + " "

func TestPingSeparatesProgressFromResult(t *testing.T) {
	t.Parallel()
	create := call(1, "create_agent", `{"name":"a","project":"p","spec":"s"}`, "t")
	quiet := call(2, "create_agent", `{"name":"b","project":"p","spec":"s"}`, "")
	require.Equal(t, strings.Fields("result"+progressOfCall+"ping result result"), exchange(t, true, initialize, create, quiet))
	require.Equal(t, strings.Fields(progressOfCall+"result"), exchange(t, true, create), "the server must not ping before the initialization")
}

func TestOnePingForClientsThatDoNotAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		started := time.Now()
		got := exchange(t, false, initialize, call(1, "create_agent", `{"name":"a","project":"p","spec":"s"}`, "t"), call(2, "create_agent", `{"name":"b","project":"p","spec":"s"}`, "t"))
		require.Equal(t, strings.Fields("result"+progressOfCall+"ping result"+progressOfCall+"result"), got)
		require.Equal(t, time.Second, time.Since(started))
	})
}
