package app

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/waittest"
)

// TestTooLargeBodies sends only the header of a request with a large body. The server must refuse the request. It must
// also refuse a body of unknown size when the body exceeds the limit.
func TestTooLargeBodies(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t, fleetConfig{})
	for _, path := range []string{"/v1/agents", "/mcp"} {
		for name, request := range map[string]struct {
			header string
			bytes  int
		}{
			"announced size": {"Content-Length: 99999999999", 0},
			"unknown size":   {"Transfer-Encoding: chunked", 50 << 20},
		} {
			t.Run(name+path, func(t *testing.T) {
				t.Parallel()
				conn, err := net.Dial("tcp", f.HTTPAddr())
				require.NoError(t, err)
				defer func() { _ = conn.Close() }()
				require.NoError(t, conn.SetDeadline(time.Now().Add(waittest.Limit)))
				_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n%s\r\n\r\n",
					path, f.HTTPAddr(), request.header)
				require.NoError(t, err)
				if request.bytes > 0 {
					go func() { // sends until the server closes the connection
						_, _ = fmt.Fprintf(conn, "%x\r\n", request.bytes)
						_, _ = conn.Write(make([]byte, request.bytes))
					}()
				}
				resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
				require.NoError(t, err)
				defer func() { _ = resp.Body.Close() }()
				body, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				require.Equal(t, http.StatusRequestEntityTooLarge, resp.StatusCode, "%s", body)
				require.Contains(t, string(body), "larger than")
				require.True(t, resp.Close)
			})
		}
	}
}
