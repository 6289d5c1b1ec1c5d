package peer

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/runner/remote"
)

// oneServerStore is a store on which one server has announced itself.
type oneServerStore struct {
	fleet.Store

	address string
}

func (*oneServerStore) EnsureSecret(_ context.Context, _ string, value []byte) ([]byte, error) {
	return value, nil
}

func (s *oneServerStore) Leases(_ context.Context, key string) (map[string]string, error) {
	return map[string]string{key: s.address}, nil
}

// TestMarkKnown checks that MarkKnown gets the requests of servers of the fleet, and that strangers do not get so far.
func TestMarkKnown(t *testing.T) {
	t.Parallel()
	place := fake.New(fake.Config{})
	t.Cleanup(place.Destroy)
	type connKey struct{}
	var knownRequests atomic.Int64
	store := &oneServerStore{}
	p, err := New(t.Context(), Config{
		Replica: "one", Store: store, Log: slog.New(slog.DiscardHandler), Place: func(string) fleet.Place { return place },
		WrapTransport: func(t http.RoundTripper) http.RoundTripper { return t },
		Listen:        func(addr string) (net.Listener, error) { return net.Listen("tcp", addr) },
		ConnContext:   func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
		MarkKnown: func(ctx context.Context) {
			if c, ok := ctx.Value(connKey{}).(*tls.Conn); ok && c.ConnectionState().HandshakeComplete {
				knownRequests.Add(1)
			}
		},
	})
	require.NoError(t, err)
	require.NoError(t, p.Listen("127.0.0.1:0"))
	ended := make(chan error, 1)
	go func() { ended <- p.Serve() }()
	store.address = p.Address()
	_, err = p.Place("one", "fake").Projects(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, knownRequests.Load())

	key, err := remote.PrivateKey(remote.NewSeed())
	require.NoError(t, err)
	config, err := sharedTLS(key)
	require.NoError(t, err)
	config.VerifyConnection = nil
	stranger := http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	resp, err := stranger.Get("https://" + p.Address())
	if err == nil {
		_ = resp.Body.Close()
	}
	require.Error(t, err)
	require.EqualValues(t, 1, knownRequests.Load())
	require.NoError(t, p.Close())
	require.ErrorIs(t, <-ended, http.ErrServerClosed)
}
