package app

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
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

// peerLease is the prefix of the lease keys under which servers publish their addresses to the other servers on the
// store. The rest of the key is the name of the server, and the owner of the lease is its address.
const peerLease = "peer/"

// peerPatience is how long a call waits for another server that does not answer.
const peerPatience = 3 * time.Second

// peers lets the servers on a store read data on each other's machines. They read raw output, patches and bundles with
// the protocol of runners. peer_place.go has the protocol for places. All servers share one key, which is in the store.
// It signs their requests, and both ends of their TLS connections use it. So only a program that can read the database
// can act as a server.
type peers struct {
	app     *App
	key     ed25519.PrivateKey
	tls     *tls.Config
	http    *http.Client
	clients remote.Clients

	listener net.Listener // accepts calls from other servers; nil before Listen
	server   *http.Server
	address  string // of this server, for others
}

// openPeers returns the peers of this server. It returns nil if no other server shares the store.
func (a *App) openPeers(ctx context.Context) (*peers, error) {
	if a.cfg.Replica == "" {
		return nil, nil
	}
	seed, err := a.store.Secret(ctx, "peer", remote.NewSeed())
	if err != nil {
		return nil, err
	}
	p := &peers{app: a}
	if p.key, err = remote.Key(seed); err != nil {
		return nil, err
	}
	if p.tls, err = sharedTLS(p.key); err != nil {
		return nil, err
	}
	p.http = &http.Client{Transport: outward{&http.Transport{TLSClientConfig: p.tls, IdleConnTimeout: time.Minute, TLSHandshakeTimeout: peerPatience}}}
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

// listen opens the address for other servers.
func (p *peers) listen(addr string) (err error) {
	if p == nil {
		return nil
	}
	if p.listener, err = net.Listen("tcp", addr); err != nil {
		return fmt.Errorf("cannot listen on the peer address %s: %w", addr, err)
	}
	if p.address, err = advertised(p.listener.Addr()); err != nil {
		return errors.Join(err, p.listener.Close())
	}
	s, err := remote.NewServer(ownRunners{p.app}, remote.ServerConfig{Key: p.key.Public().(ed25519.PublicKey), Version: Version(), Logger: p.app.log}) //nolint:forcetypeassert // of an Ed25519 key
	if err != nil {
		return errors.Join(err, p.listener.Close())
	}
	p.server = &http.Server{
		Handler: p.handler(s.Handler()), TLSConfig: p.tls.Clone(), ReadHeaderTimeout: connectTimeout, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(p.app.log.Handler(), slog.LevelDebug),
	}
	return nil
}

// advertised returns the HOST:PORT at which other servers reach the listener with the address. For a listener on all
// addresses, the host is the name of this machine.
func advertised(a net.Addr) (string, error) {
	at, err := netip.ParseAddrPort(a.String())
	if err != nil || !at.Addr().IsUnspecified() {
		return a.String(), err
	}
	host, err := os.Hostname()
	return net.JoinHostPort(host, fmt.Sprint(at.Port())), err
}

// serve answers other servers until close is called.
func (p *peers) serve() error { return p.server.ServeTLS(p.listener, "", "") }

// close closes the listener and ends open calls of other servers.
func (p *peers) close() error {
	if p == nil || p.listener == nil {
		return nil
	}
	p.http.CloseIdleConnections()
	if p.server == nil {
		return p.listener.Close()
	}
	return errors.Join(p.server.Close(), ignoreClosed(p.listener.Close()))
}

// announce publishes the address of this server for other servers, as a lease that announce also renews.
func (p *peers) announce(ctx context.Context) error {
	if p == nil || p.address == "" {
		return nil
	}
	store, key := p.app.store, peerLease+p.app.cfg.Replica
	epoch, err := store.Lease(ctx, key, p.address, serverLeaseTTL)
	if err != nil || epoch != 0 {
		return err
	}
	owners, err := store.Leases(ctx, key) // the owner is the address of this server before its restart
	if err != nil {
		return err
	}
	if err := store.Release(ctx, key, owners[key]); err != nil {
		return err
	}
	_, err = store.Lease(ctx, key, p.address, serverLeaseTTL)
	return err
}

// withdraw removes the address that announce published.
func (p *peers) withdraw(ctx context.Context) error {
	if p == nil || p.address == "" {
		return nil
	}
	return p.app.store.Release(ctx, peerLease+p.app.cfg.Replica, p.address)
}

// addressOf returns the address of the server, or "" if it does not run.
func (p *peers) addressOf(ctx context.Context, server string) (string, error) {
	owners, err := p.app.store.Leases(ctx, peerLease+server)
	return owners[peerLease+server], err
}

// Runner implements state.Elsewhere.
func (p *peers) Runner(server string, a fleet.Agent) fleet.Runner {
	return peerRunner{peers: p, name: server, agent: a}
}

// peerRunner reads from another server.
type peerRunner struct {
	fleet.Runner // nil: methods that are not defined below are never called, see state.Config

	peers *peers
	name  string // of the server
	agent fleet.Agent
}

// call calls f with the agent's runner on the other server. It returns BACKEND_UNAVAILABLE if that server does not
// answer.
func (r peerRunner) call(ctx context.Context, f func(fleet.Runner) error) error {
	address, err := r.peers.addressOf(ctx, r.name)
	if err != nil {
		return err
	}
	away := fleet.Errorf(fleet.ReasonBackendUnavailable, "the agent %q is on the machine of the server %s, which does not answer: start that server, or try again later", r.agent.Name, r.name).With("server", r.name)
	if address == "" {
		return away
	}
	c := r.peers.clients.Get(remote.ClientConfig{URL: "https://" + address, Key: r.peers.key, HTTP: r.peers.http, Version: Version(), Patience: peerPatience})
	if err = f(c.Connect(r.agent)); fleet.ReasonOf(err) == fleet.ReasonBackendUnavailable {
		return away.WithCause(err)
	}
	return err
}

func (r peerRunner) Output(ctx context.Context, run fleet.Run, offset int64, limit int) (page fleet.OutputPage, err error) {
	err = r.call(ctx, func(runner fleet.Runner) (err error) {
		page, err = runner.Output(ctx, run, offset, limit)
		return err
	})
	return page, err
}

func (r peerRunner) Patch(ctx context.Context, c fleet.Changes, path string, offset int64, limit int) (text []byte, more bool, err error) {
	err = r.call(ctx, func(runner fleet.Runner) (err error) {
		text, more, err = runner.Patch(ctx, c, path, offset, limit)
		return err
	})
	return text, more, err
}

func (r peerRunner) Bundle(ctx context.Context, w io.Writer) error {
	return r.call(ctx, func(runner fleet.Runner) error { return runner.Bundle(ctx, w) })
}

// ownRunners are the runners that this server offers to other servers: the runners of agents on its machine. They only
// read.
type ownRunners struct{ app *App }

func (o ownRunners) Connect(a fleet.Agent) fleet.Runner { return ownRunner{app: o.app, uid: a.UID} }

// ownRunner is the runner of an agent on this machine, used by another server.
type ownRunner struct {
	app *App
	uid string
}

// runner returns the runner of the agent. It returns AGENT_NOT_FOUND if the store does not have the agent, or if the
// agent is on another machine.
func (r ownRunner) runner(ctx context.Context) (fleet.Runner, error) {
	var a *fleet.Agent
	err := r.app.store.View(ctx, func(tx fleet.ReadTx) (err error) {
		a, err = tx.Agent(r.uid)
		return err
	})
	if err != nil {
		return nil, err
	}
	if a != nil {
		if place := r.app.own[a.Place]; place != nil {
			return place.Connect(*a), nil
		}
	}
	return nil, fleet.Errorf(fleet.ReasonAgentNotFound, "the agent is not on this machine")
}

func (r ownRunner) Output(ctx context.Context, run fleet.Run, offset int64, limit int) (fleet.OutputPage, error) {
	runner, err := r.runner(ctx)
	if err != nil {
		return fleet.OutputPage{}, err
	}
	return runner.Output(ctx, run, offset, limit)
}

func (r ownRunner) Patch(ctx context.Context, c fleet.Changes, path string, offset int64, limit int) ([]byte, bool, error) {
	runner, err := r.runner(ctx)
	if err != nil {
		return nil, false, err
	}
	return runner.Patch(ctx, c, path, offset, limit)
}

func (r ownRunner) Bundle(ctx context.Context, w io.Writer) error {
	runner, err := r.runner(ctx)
	if err != nil {
		return err
	}
	return runner.Bundle(ctx, w)
}

// errReads is the error of the methods that change something: a server does not call them on another server.
var errReads = fleet.Errorf(fleet.ReasonUnimplemented, "servers only read from each other")

func (ownRunner) Dispatch(context.Context, fleet.Run) error { return errReads }

func (ownRunner) Follow(context.Context, fleet.Run, string, func(fleet.Output) error) (fleet.Outcome, error) {
	return fleet.Outcome{}, errReads
}

func (ownRunner) Interrupt(context.Context, fleet.Run, bool) error { return errReads }

func (ownRunner) Send(context.Context, fleet.Run, string, string) error { return errReads }

func (ownRunner) Answer(context.Context, fleet.Run, fleet.Question) error { return errReads }

func (ownRunner) Changes(context.Context, fleet.Run) (*fleet.Changes, error) { return nil, errReads }

func (ownRunner) Check(context.Context, fleet.Run, fleet.Check) (fleet.CheckResult, error) {
	return fleet.CheckResult{}, errReads
}
