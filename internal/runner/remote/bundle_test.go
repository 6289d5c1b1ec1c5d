package remote

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/waittest"
)

// bundler is a runner that writes a bundle.
type bundler struct {
	fleet.Runner
	text       []byte
	writeCount int // how often the bundle was written
}

func (b *bundler) Connect(fleet.Agent) fleet.Runner { return b }

func (b *bundler) Bundle(_ context.Context, w io.Writer) error {
	b.writeCount++
	_, err := w.Write(b.text)
	return err
}

// cuttingTransport is a transport that cuts off each response after maxBytes.
type cuttingTransport struct{ maxBytes int64 }

func (c cuttingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := http.DefaultTransport.RoundTrip(r)
	if err == nil {
		res.Body = &cutBody{res.Body, c.maxBytes}
	}
	return res, err
}

// cutBody is a response body that fails after a number of bytes.
type cutBody struct {
	io.ReadCloser
	remaining int64
}

func (c *cutBody) Read(p []byte) (int, error) {
	if c.remaining <= 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := c.ReadCloser.Read(p[:min(int64(len(p)), c.remaining)])
	c.remaining -= int64(n)
	return n, err
}

// serveBundles returns a client's runner that reaches b over the transport. restart replaces the server by a new one.
func serveBundles(t *testing.T, b *bundler, transport http.RoundTripper) (a fleet.Runner, restart func()) {
	public, private, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	var s *Server
	restart = func() {
		s, err = NewServer(b, ServerConfig{Key: public})
		require.NoError(t, err)
	}
	restart()
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.Handler().ServeHTTP(w, r) }))
	t.Cleanup(front.Close)
	c := NewClient(ClientConfig{URL: front.URL, Key: private, HTTP: &http.Client{Transport: transport}, RetryTimeout: waittest.Limit})
	return c.Connect(fleet.Agent{UID: "one", Name: "papi"}), restart
}

// TestBundleContinues reads a bundle over connections that break. Each connection must continue where the previous one
// broke.
func TestBundleContinues(t *testing.T) {
	t.Parallel()
	b := &bundler{text: make([]byte, 1<<20)}
	_, _ = rand.Read(b.text) // random data cannot be compressed
	a, _ := serveBundles(t, b, cuttingTransport{300 << 10})
	var got bytes.Buffer
	require.NoError(t, a.Bundle(t.Context(), &got))
	require.True(t, bytes.Equal(b.text, got.Bytes()))
	require.Equal(t, 1, b.writeCount)

	b.text = nil
	got.Reset()
	require.NoError(t, a.Bundle(t.Context(), &got))
	require.Zero(t, got.Len())
}

// TestBundleRestarted checks that a bundle is abandoned if its runner was restarted, because a new bundle may differ. It also
// checks that an error of the writer is returned.
func TestBundleRestarted(t *testing.T) {
	t.Parallel()
	b := &bundler{text: make([]byte, 1<<20)}
	_, _ = rand.Read(b.text)
	a, restart := serveBundles(t, b, cuttingTransport{300 << 10})
	restarted := false
	err := a.Bundle(t.Context(), writer(func(p []byte) (int, error) {
		if !restarted {
			restarted = true
			restart()
		}
		return len(p), nil
	}))
	require.Equal(t, fleet.ReasonBackendUnavailable, fleet.ReasonOf(err), "%v", err)
	require.ErrorContains(t, err, "ask for the bundle again")
	require.Equal(t, 1, b.writeCount)

	errFull := errors.New("full")
	require.Equal(t, errFull, a.Bundle(t.Context(), writer(func([]byte) (int, error) { return 0, errFull })))
}

// TestBundleExpires checks that a bundle stays while somebody reads it, however long that takes, and is removed some
// time after its last reader.
func TestBundleExpires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := bundles{byID: map[string]*bundle{}}
		count := func() int {
			all.mu.Lock()
			defer all.mu.Unlock()
			return len(all.byID)
		}
		first, releaseFirst := all.open("id")
		require.NoError(t, first.create(t.Context(), (&bundler{text: []byte("bundle")}).Bundle, false))
		time.Sleep(2 * transferRetention)

		second, releaseSecond := all.open("id") // the first connection broke, and its reader has not noticed that yet
		require.Same(t, first, second)
		releaseFirst()
		time.Sleep(2 * transferRetention)
		require.Equal(t, 1, count())
		_, err := second.file.ReadAt(make([]byte, 6), 0)
		require.NoError(t, err)

		releaseSecond()
		time.Sleep(transferRetention - time.Second)
		_, releaseFirst = all.open("id")
		releaseFirst()
		time.Sleep(transferRetention - time.Second)
		require.Equal(t, 1, count())
		time.Sleep(2 * time.Second)
		require.Zero(t, count())
		_, err = second.file.ReadAt(make([]byte, 6), 0)
		require.ErrorIs(t, err, os.ErrClosed)
	})
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }
