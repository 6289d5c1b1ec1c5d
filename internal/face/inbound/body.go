package inbound

import (
	"errors"
	"io"
	"net/http"
	"time"
)

const (
	// bodyGrace is how long a body may take to arrive, before bodyRate adds time for its bytes.
	bodyGrace = 30 * time.Second
	// bodyRate is how many bytes add a second to that time.
	bodyRate = 16 << 10
	// drainTimeout is how long the unread rest of a body may take, so that the client reads the answer before the
	// connection ends.
	drainTimeout = time.Second
)

// LimitBodies gives each request body a read deadline that moves on as bytes arrive. The deadline ends with the body, so it
// does not limit the work of the handler.
func LimitBodies(next http.Handler) http.Handler { return limitBodies(next, bodyGrace) }

func limitBodies(next http.Handler, grace time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body == nil || r.Body == http.NoBody {
			next.ServeHTTP(w, r)
			return
		}
		b := &body{ReadCloser: r.Body, control: http.NewResponseController(w), started: time.Now(), grace: grace}
		in := r.WithContext(r.Context()) // the server uses its own request, which must not change
		in.Body = b
		defer func() {
			if !b.atEOF {
				_ = b.control.SetReadDeadline(time.Now().Add(drainTimeout))
			}
		}()
		next.ServeHTTP(w, in)
	})
}

// body is a request body. Only one goroutine reads it at a time.
type body struct {
	io.ReadCloser
	control   *http.ResponseController
	started   time.Time
	grace     time.Duration
	bytesRead int64
	atEOF     bool
}

// Read reads the next bytes of the body. If none have arrived, it waits for them until the deadline.
func (b *body) Read(p []byte) (int, error) {
	if b.atEOF {
		return b.ReadCloser.Read(p)
	}
	deadline := b.started.Add(b.grace + time.Duration(b.bytesRead)*(time.Second/bodyRate))
	_ = b.control.SetReadDeadline(deadline) // a connection without deadlines needs none
	n, err := b.ReadCloser.Read(p)
	b.bytesRead += int64(n)
	if errors.Is(err, io.EOF) {
		b.atEOF = true
		_ = b.control.SetReadDeadline(time.Time{}) // the server keeps reading, to notice when the client disconnects
	}
	return n, err
}
