package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"fleet/internal/admission"
	"fleet/internal/face/encoded"
	"fleet/internal/face/inbound"
	"fleet/internal/face/mcp"
	"fleet/internal/face/page"
	"fleet/internal/face/protected"
	"fleet/internal/face/rest"
	"fleet/internal/fleet"
	"fleet/internal/loopback"
	"fleet/internal/toolset/lifecycle"
)

// maxMessage returns the size of the largest accepted message, in bytes. It exceeds every allowed text and payload,
// even written as JSON, so that the core can report which text is too large.
func (c Config) maxMessage() int {
	return 16<<20 + 2*max(c.Lifecycle.MaxPayload, lifecycle.DefaultMaxPayload)
}

const (
	// connectTimeout is how long a client may take to send the header of a request, or the preface of gRPC.
	connectTimeout = 10 * time.Second
	// maxHeader is the largest header, in bytes.
	maxHeader = 64 << 10
	// maxStreams is how many open calls a gRPC connection may have.
	maxStreams = 1000
	// streamWorkers is the number of permanent goroutines that serve gRPC calls, one call after the other. Their stacks
	// have already grown to the size that a call needs. The stack of a new goroutine would have to grow first.
	streamWorkers = 64
)

// shutdownGrace is how long connections may take to end by themselves when the server stops.
const shutdownGrace = 5 * time.Second

// closeGrace is how long the fleet may take to close after its connections have ended. Work that has not finished by then ends with
// the process. That is safe: everything that agents and their runs need is in the store and in their directories at all
// times.
const closeGrace = 15 * time.Second

// Server is a fleet with its listeners.
type Server struct {
	*App
	shutdownGrace              time.Duration
	closed                     chan error // receives the result of closing the fleet
	grpcListener, httpListener net.Listener
	metrics                    *metricsServer // nil if no metrics address is configured
	agentsListener             net.Listener   // without TLS, for agents on this machine; nil if httpListener has no TLS either
	grpc                       *grpc.Server
	http                       *http.Server
	endHTTP                    context.CancelFunc // ends the contexts of HTTP requests
	endSharing                 func()             // the result of startSharing
}

// Listen opens the listeners of the fleet, so that an occupied port is reported before anything starts. version is the
// version that REST and MCP report. If Listen fails, it closes its listeners, but not the App.
func (a *App) Listen(version string) (_ *Server, err error) {
	if err := a.cfg.Validate(); err != nil { // again, because a caller may have built the configuration: a server must not be open to everybody by accident
		return nil, err
	}
	s := &Server{App: a, shutdownGrace: shutdownGrace, closed: make(chan error, 1)}
	httpKeys, grpcKeys, err := a.keys()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.closeListeners())
		}
	}()
	if s.httpListener, err = listen("http", a.cfg.HTTP, a.inboundLimits); err != nil {
		return nil, err
	}
	if s.grpcListener, err = listen("grpc", a.cfg.GRPC, a.inboundLimits); err != nil {
		return nil, err
	}
	if httpKeys != nil {
		if s.agentsListener, err = listen("agents-http", a.cfg.AgentsHTTP, a.inboundLimits); err != nil {
			return nil, err
		}
	}
	if s.metrics, err = a.listenMetrics(httpKeys); err != nil {
		return nil, err
	}
	if err := a.peers.Listen(a.cfg.Peer); err != nil {
		return nil, err
	}
	s.grpc = grpc.NewServer(
		grpc.ChainUnaryInterceptor(encoded.UnaryInterceptor, a.guard.Unary), grpc.StreamInterceptor(a.guard.Stream), grpc.MaxRecvMsgSize(a.cfg.maxMessage()),
		grpc.Creds(inbound.Credentials(grpcKeys)), grpc.InTapHandle(a.identifyGRPC), grpc.ConnectionTimeout(connectTimeout),
		grpc.MaxHeaderListSize(maxHeader), grpc.MaxConcurrentStreams(maxStreams),
		grpc.ForceServerCodecV2(encoded.Codec{CodecV2: admission.CountingCodec{CodecV2: encoding.GetCodecV2(proto.Name)}}), grpc.NumStreamWorkers(streamWorkers),
		grpc.RPCDecompressor(noDecompression{}), //nolint:staticcheck // nothing else refuses a compression that a library has registered
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
	)
	a.register(s.grpc)
	reflection.Register(s.grpc)

	handler, err := a.handler(version)
	if err != nil {
		return nil, err
	}
	var base context.Context
	base, s.endHTTP = context.WithCancel(context.Background())
	a.lock.writeHolder(s.GRPCAddr())
	s.http = &http.Server{
		Handler: handler, ReadHeaderTimeout: connectTimeout, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: maxHeader,
		ConnContext: inbound.WithConn,
		BaseContext: func(net.Listener) context.Context { return base },
		ErrorLog:    slog.NewLogLogger(a.log.Handler(), slog.LevelDebug),
	}
	if httpKeys != nil {
		s.http.TLSConfig = httpKeys.Config()
	}
	return s, nil
}

// keys returns the keys of the listeners, or nil without TLS. Browsers and MCP clients have no certificates, so only
// gRPC clients must show one.
func (a *App) keys() (forHTTP, forGRPC *inbound.Keys, err error) {
	if !a.cfg.TLS.enabled() {
		return nil, nil, nil
	}
	files := inbound.KeyFiles{Cert: a.cfg.TLS.Cert, Key: a.cfg.TLS.Key}
	if forHTTP, err = inbound.NewKeys(files, a.log, "h2", "http/1.1"); err != nil {
		return nil, nil, err
	}
	files.ClientCA = a.cfg.TLS.ClientCA
	forGRPC, err = inbound.NewKeys(files, a.log, "h2")
	return forHTTP, forGRPC, err
}

// closeListeners closes the listeners that are open.
func (s *Server) closeListeners() error {
	errs := []error{s.metrics.close(), s.peers.Close()}
	for _, l := range []net.Listener{s.httpListener, s.grpcListener, s.agentsListener} {
		if l != nil {
			errs = append(errs, l.Close())
		}
	}
	return errors.Join(errs...)
}

// handler returns the handler for everything on the HTTP address: the page, REST, MCP, metrics and support for admins,
// the runner program for workspaces, and the metadata that tells OAuth clients where to sign in.
func (a *App) handler(version string) (http.Handler, error) {
	conn := inProcess{channel: a.channel} // carries the calls that are forwarded for callers
	resource := a.protectedResource()
	restConfig := rest.Config{Version: version, MaxBodyBytes: int64(a.cfg.maxMessage()), Identify: a.identifyREST, Heartbeat: a.heartbeat}
	mcpConfig := mcp.Config{
		Version: version, Log: a.log, MaxBody: int64(a.cfg.maxMessage()), Identify: a.identifyMCP, Rights: admission.Rights, CheckLimits: admission.CheckLimits, TakeSlot: a.interceptor.TakeSlot,
		MaxResult: a.cfg.MCP.MaxResult, Tools: a.cfg.MCP.Tools, SessionKey: a.faceKey,
	}
	if resource != nil {
		restConfig.Challenge, mcpConfig.Challenge = resource.Challenge, resource.Challenge
	}
	restFace, err := rest.Handler(conn, restConfig)
	if err != nil {
		return nil, err
	}
	mcpFace := mcp.Handler(conn, mcpConfig)
	runners := newRunnerDownloads(a.cfg.runnerDir())
	metrics := a.forAdmins(a.telemetry.ServeHTTP, "metrics are for admins: use an admin's token, or the address of the setting metrics")
	support := a.forAdmins(a.serveSupport, "the server's log and goroutines are for admins: use an admin's token")
	all := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, runnerDownloadsPath) {
			runners.ServeHTTP(w, r)
			return
		}
		switch r.URL.Path {
		case metricsPath:
			metrics(w, r)
			return
		case supportLogPath, supportGoroutinesPath:
			support(w, r)
			return
		}
		if resource != nil && (r.URL.Path == protected.Path || strings.HasPrefix(r.URL.Path, protected.Path+"/")) {
			resource.ServeHTTP(w, r)
			return
		}
		if r.URL.Path == "/mcp" || strings.HasPrefix(r.URL.Path, "/mcp/") {
			mcpFace.ServeHTTP(w, r)
			return
		}
		restFace.ServeHTTP(w, r)
	})
	withPage, err := page.Handler(all, page.NewSessions(a.sessionConfig()))
	if err != nil {
		return nil, err
	}
	return inbound.LimitBodies(inbound.Guard(withPage, a.cfg.additionalHosts(), rest.IsProbe)), nil
}

// listen listens at addr, which is the value of the setting key. The limits hold for connections of unknown callers. See
// reserve for loopback addresses.
func listen(key, addr string, limits inbound.Limits) (net.Listener, error) {
	l, err := listenWithLimits(addr, limits)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("the %s address %s is in use: stop the other program, or choose another address with --%s; if it is another fleet, this one also needs a data directory of its own", key, addr, key)
	}
	if err != nil {
		return nil, err
	}
	return reserve(l), nil
}

// listenWithLimits listens at addr. The limits hold for connections of unknown callers.
func listenWithLimits(addr string, limits inbound.Limits) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	tcp, ok := l.(*net.TCPListener)
	if !ok {
		return nil, errors.Join(fmt.Errorf("%s is not a TCP address", addr), l.Close())
	}
	return inbound.Listen(tcp, limits), nil
}

// HTTPAddr returns the address of REST and MCP.
func (s *Server) HTTPAddr() string { return s.httpListener.Addr().String() }

// localAddr returns the address at which programs on this machine reach REST and MCP. With TLS, the host of a listener on
// all addresses is localhost, because certificates have names.
func (s *Server) localAddr() string {
	local := loopback.DialAddress(s.HTTPAddr())
	if _, port, err := net.SplitHostPort(local); err == nil && s.cfg.TLS.enabled() && local != s.HTTPAddr() {
		return net.JoinHostPort("localhost", port)
	}
	return local
}

// GRPCAddr returns the address of gRPC.
func (s *Server) GRPCAddr() string { return s.grpcListener.Addr().String() }

// Serve runs the fleet and answers calls until ctx is done, a listener fails, or this server must end because of another
// one; see shareOnce. Then it ends open calls and closes the listeners and the fleet. If ctx was done and everything
// closed without an error, it returns nil.
func (s *Server) Serve(ctx context.Context) error {
	httpURL, serveHTTP := "http://"+s.localAddr(), s.http.Serve
	agentURL := httpURL
	ended := make(chan error, 6)
	if s.agentsListener != nil {
		httpURL, agentURL = "https://"+s.localAddr(), "http://"+s.agentsListener.Addr().String()
		serveHTTP = func(l net.Listener) error { return s.http.ServeTLS(l, "", "") }
		go func() { ended <- s.http.Serve(s.agentsListener) }()
	}
	s.httpURL.Store(&httpURL)
	s.agentURL.Store(&agentURL)
	s.Start()
	s.endSharing = s.startSharing(func(err error) { ended <- err })
	go func() { ended <- s.grpc.Serve(s.grpcListener) }()
	go func() { ended <- serveHTTP(s.httpListener) }()
	if s.metrics != nil {
		go func() { ended <- s.metrics.serve() }()
	}
	if s.peers != nil {
		go func() { ended <- s.peers.Serve() }()
	}
	s.log.InfoContext(ctx, "server started", slog.String("http", s.HTTPAddr()), slog.String("grpc", s.GRPCAddr()), slog.Bool("tls", s.cfg.TLS.enabled()),
		slog.Any("places", s.cfg.Places), slog.String("auth", s.cfg.Auth.String()), slog.String("data", s.cfg.Data), slog.String("store", s.cfg.shownStore()))

	s.warnOpen(ctx)
	s.warnNoToken(ctx)
	s.warnMissing(ctx)

	var err error
	select {
	case <-ctx.Done():
		s.log.Info("server stopping; agents and their programs continue", slog.Int64("calls", s.guard.openCalls.Load()))
	case err = <-ended:
	}
	s.service.SetShuttingDown()
	return errors.Join(err, s.shutdown())
}

// warnNoToken logs how to make the first token if callers can only be identified by tokens and no token is valid.
func (s *Server) warnNoToken(ctx context.Context) {
	if !slices.Equal(s.cfg.Auth, Auth{AuthTokens}) {
		return
	}
	tokens, err := s.service.ListTokens(ctx)
	if err != nil || slices.ContainsFunc(tokens, func(t *fleet.Token) bool { return t.Valid(s.service.Now()) }) {
		return
	}
	next := "stop the server, and then: (umask 077; fleet token create me --admin --embedded --data " + s.cfg.Data + " > ~/.fleet-token)"
	if s.cfg.Store != "" {
		next = "with the FLEET_STORE of this server: (umask 077; FLEET_REPLICA= FLEET_DATA=$(mktemp -d) fleet token create me --admin --embedded > ~/.fleet-token)"
	}
	s.log.WarnContext(ctx, "nobody can call, because there is no token yet", slog.String("setting", "auth"), slog.String("next", next))
}

// warnOpen logs a warning if the server accepts more callers than its settings seem to say.
func (s *Server) warnOpen(ctx context.Context) {
	if s.cfg.Auth.None() && !s.cfg.AnyLocalUser && !inbound.CanFindUser {
		s.log.WarnContext(ctx, "every user of this machine is served, because this system does not tell which user opened a connection; use auth tokens if there are other users",
			slog.String("setting", "auth"), slog.String("system", runtime.GOOS))
	}
}

// shutdown ends calls, listeners and connections, and then closes the fleet. It cuts connections that are still open
// after s.shutdownGrace, because a stream that its client does not read ends only with its connection. If the calls and the fleet do not
// end within s.closeGrace, shutdown returns an error and does not wait any longer.
func (s *Server) shutdown() error {
	s.guard.end()
	ctx, cancel := context.WithTimeout(context.Background(), s.shutdownGrace)
	defer cancel()
	graceful := make(chan struct{})
	go func() { s.grpc.GracefulStop(); close(graceful) }()
	err := s.http.Shutdown(ctx) // waits until the requests have ended and their clients have the answers
	s.endHTTP()
	if errors.Is(err, context.DeadlineExceeded) {
		err = s.http.Close()
	}
	err = errors.Join(err, s.metrics.close(), s.peers.Close())
	select {
	case <-graceful:
	case <-ctx.Done():
		s.grpc.Stop()
	}
	s.endSharing()
	go func() {
		err := s.Close()
		<-graceful // GracefulStop waits for the calls, like Close
		s.closed <- err
	}()
	select {
	case cerr := <-s.closed:
		return errors.Join(err, cerr)
	case <-time.After(s.closeGrace):
		return errors.Join(err, fmt.Errorf("background work did not end within %s: exiting anyway", s.closeGrace))
	}
}
