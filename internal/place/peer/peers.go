package peer

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"os"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/runner/remote"
)

// leasePrefix is the prefix of the lease keys under which servers publish their addresses to the other servers on the
// store. The rest of the key is the name of the server, and the owner of the lease is its address.
const leasePrefix = "peer/"

// connectTimeout limits the TLS handshake with another server, and how long a call to a runner there is retried.
const connectTimeout = 3 * time.Second

// Config configures Peers. All fields are required.
type Config struct {
	Replica       string                                    // the name of this server
	Version       string                                    // of this program
	LeaseDuration time.Duration                             // how long an announced address is valid; see Announce
	Store         fleet.Store                               // the store that the servers share
	Place         func(name string) fleet.Place             // a place of this server; nil if there is none with the name
	WrapTransport func(http.RoundTripper) http.RoundTripper // wraps the transport of calls
	Log           *slog.Logger

	// Listen opens the address for other servers.
	Listen func(addr string) (net.Listener, error)
	// ConnContext is the ConnContext of the http.Server.
	ConnContext func(ctx context.Context, c net.Conn) context.Context
	// MarkKnown is called with the context of each request, once it is certain that another server has sent the request.
	MarkKnown func(ctx context.Context)
}

// Peers lets the servers on a store read data on each other's machines. All servers share one key, which is in the store. It
// signs their requests, and both ends of their TLS connections use it. So only a program that can read the database can act as
// a server. A server that does not share its store has a nil *Peers, whose Listen, Close, Address, Announce and Withdraw do
// nothing.
type Peers struct {
	config  Config
	key     ed25519.PrivateKey
	tls     *tls.Config
	http    *http.Client
	clients remote.Clients

	listener net.Listener // accepts calls from other servers; nil before Listen
	server   *http.Server
	address  string // of this server, for other servers
}

// New returns the peers of a server. It reads the key of the servers from the store, or creates it there.
func New(ctx context.Context, c Config) (*Peers, error) {
	seed, err := c.Store.EnsureSecret(ctx, "peer", remote.NewSeed())
	if err != nil {
		return nil, err
	}
	p := &Peers{config: c}
	if p.key, err = remote.PrivateKey(seed); err != nil {
		return nil, err
	}
	if p.tls, err = sharedTLS(p.key); err != nil {
		return nil, err
	}
	p.http = &http.Client{Transport: c.WrapTransport(&http.Transport{TLSClientConfig: p.tls, IdleConnTimeout: time.Minute, TLSHandshakeTimeout: connectTimeout})}
	return p, nil
}

// sharedTLS returns the TLS configuration that both ends of a connection use. Each end shows a certificate with the key
// and requires one from the other end. Nothing but the key in the certificate is checked.
func sharedTLS(key ed25519.PrivateKey) (*tls.Config, error) {
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<34, 0)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{{Certificate: [][]byte{cert}, PrivateKey: key}},
		ClientAuth: tls.RequireAnyClientCert, InsecureSkipVerify: true, //nolint:gosec // VerifyConnection compares keys
		VerifyConnection: func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) > 0 {
				if theirs, ok := s.PeerCertificates[0].PublicKey.(ed25519.PublicKey); ok && theirs.Equal(key.Public()) {
					return nil
				}
			}
			return errors.New("the other end of the connection is not a server of this fleet: its key is not the one in the store")
		},
	}, nil
}

// Listen opens the address for other servers. Serve answers their calls.
func (p *Peers) Listen(addr string) (err error) {
	if p == nil {
		return nil
	}
	if p.listener, err = p.config.Listen(addr); err != nil {
		return fmt.Errorf("cannot listen on the peer address %s: %w", addr, err)
	}
	if p.address, err = advertisedAddress(p.listener.Addr()); err != nil {
		return errors.Join(err, p.listener.Close())
	}
	s, err := remote.NewServer(localRunners{p}, remote.ServerConfig{Key: p.key.Public().(ed25519.PublicKey), Version: p.config.Version, Logger: p.config.Log}) //nolint:forcetypeassert // of an Ed25519 key
	if err != nil {
		return errors.Join(err, p.listener.Close())
	}
	handler := p.handler(s.Handler())
	p.server = &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			p.config.MarkKnown(r.Context()) // the TLS handshake is over
			handler.ServeHTTP(w, r)
		}),
		ConnContext: p.config.ConnContext, TLSConfig: p.tls.Clone(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(p.config.Log.Handler(), slog.LevelDebug),
	}
	return nil
}

// advertisedAddress returns the HOST:PORT at which other servers reach the listener with the address. For a listener on all
// addresses, the host is the name of this machine.
func advertisedAddress(a net.Addr) (string, error) {
	addrPort, err := netip.ParseAddrPort(a.String())
	if err != nil || !addrPort.Addr().IsUnspecified() {
		return a.String(), err
	}
	host, err := os.Hostname()
	return net.JoinHostPort(host, fmt.Sprint(addrPort.Port())), err
}

// Serve answers other servers until Close is called, and then returns http.ErrServerClosed. Call it after Listen.
func (p *Peers) Serve() error { return p.server.ServeTLS(p.listener, "", "") }

// Close closes the listener and ends open calls of other servers.
func (p *Peers) Close() error {
	if p == nil || p.listener == nil {
		return nil
	}
	p.http.CloseIdleConnections()
	if p.server == nil {
		return p.listener.Close()
	}
	err := p.server.Close()                                    // before the listener, because it returns an error if the listener is already closed
	if e := p.listener.Close(); !errors.Is(e, net.ErrClosed) { // open if Serve was not called yet
		err = errors.Join(err, e)
	}
	return err
}

// Address returns the address of this server for other servers, or "" before Listen.
func (p *Peers) Address() string {
	if p == nil {
		return ""
	}
	return p.address
}

// Announce publishes the address of this server for other servers. The address expires after Config.LeaseDuration unless Announce is
// called again. Before Listen, Announce does nothing.
func (p *Peers) Announce(ctx context.Context) error {
	if p == nil || p.address == "" {
		return nil
	}
	store, key := p.config.Store, leasePrefix+p.config.Replica
	epoch, err := store.AcquireLease(ctx, key, p.address, p.config.LeaseDuration)
	if err != nil || epoch != 0 {
		return err
	}
	owners, err := store.Leases(ctx, key) // the owner is the address of this server before its restart
	if err != nil {
		return err
	}
	if err := store.ReleaseLease(ctx, key, owners[key]); err != nil {
		return err
	}
	_, err = store.AcquireLease(ctx, key, p.address, p.config.LeaseDuration)
	return err
}

// Withdraw removes the address that Announce published.
func (p *Peers) Withdraw(ctx context.Context) error {
	if p == nil || p.address == "" {
		return nil
	}
	return p.config.Store.ReleaseLease(ctx, leasePrefix+p.config.Replica, p.address)
}

// addressOf returns the address that the server has announced, or "" if there is none or it has expired.
func (p *Peers) addressOf(ctx context.Context, server string) (string, error) {
	owners, err := p.config.Store.Leases(ctx, leasePrefix+server)
	return owners[leasePrefix+server], err
}
