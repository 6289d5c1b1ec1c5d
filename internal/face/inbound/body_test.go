package inbound

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/waittest"
)

// TestBodiesHaveADeadline checks that a stalled body ends its request, and that the work after a complete body has no
// deadline.
func TestBodiesHaveADeadline(t *testing.T) {
	t.Parallel()
	read := make(chan error, 2)
	serve := func(t *testing.T, grace time.Duration) *httptest.Server {
		s := httptest.NewServer(limitBodies(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, err := io.ReadAll(r.Body)
			read <- err
			if err == nil {
				select {
				case <-r.Context().Done():
					read <- r.Context().Err()
				case <-time.After(3 * grace): // longer than the deadline of the body
					read <- nil
				}
			}
			_, _ = io.WriteString(w, "done")
		}), grace))
		t.Cleanup(s.Close)
		return s
	}

	c, err := net.Dial("tcp", serve(t, 100*time.Millisecond).Listener.Addr().String())
	require.NoError(t, err)
	defer func() { _ = c.Close() }()
	_, err = fmt.Fprint(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nabc")
	require.NoError(t, err)
	require.ErrorContains(t, <-read, "i/o timeout")

	waittest.WithGrowingLimit(t, 100*time.Millisecond, func(grace time.Duration) (inTime bool) {
		s := serve(t, grace)
		for range 2 { // on one connection
			resp, err := s.Client().Post(s.URL, "text/plain", strings.NewReader("abc"))
			require.NoError(t, err)
			b, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.Equal(t, "done", string(b))
			require.NoError(t, resp.Body.Close())
			if err = <-read; errors.Is(err, os.ErrDeadlineExceeded) {
				return false
			}
			require.NoError(t, err)
			require.NoError(t, <-read)
		}
		return true
	})
}
