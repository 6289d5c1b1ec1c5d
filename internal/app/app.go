package app

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/admission"
	"fleet/internal/cron"
	"fleet/internal/face/inbound"
	"fleet/internal/face/rpc"
	"fleet/internal/fleet"
	"fleet/internal/forge"
	coderusers "fleet/internal/identity/coder"
	"fleet/internal/identity/oidc"
	"fleet/internal/place/local"
	"fleet/internal/place/peer"
	"fleet/internal/price"
	"fleet/internal/reconcile"
	"fleet/internal/schema"
	"fleet/internal/service"
	"fleet/internal/state"
	"fleet/internal/telemetry"
	"fleet/internal/toolset/lifecycle"
	"fleet/internal/toolset/providers"
	"fleet/internal/toolset/sessions"
	"fleet/internal/toolset/subagents"
	"fleet/internal/webhook"
)

// App is a fleet in this process. It has no listeners: Listen adds them.
type App struct {
	cfg           Config
	peers         *peer.Peers            // nil if no other server shares the store
	ownPlaces     map[string]fleet.Place // places that are bound to this machine, by name
	machine       string                 // distinguishes this server from another one with the same name; "" if no other server shares the store
	log           *slog.Logger
	lock          *dataLock
	store         fleet.Store
	places        *places
	service       *service.Service
	reconciler    *reconcile.Reconciler
	channel       *channel
	guard         *guard
	lifecycle     *lifecycle.Service
	providers     *providers.Service
	subagents     *subagents.Service
	sessions      *sessions.Service
	issuer        *oidc.Issuer // nil without auth oidc
	interceptor   *admission.Interceptor
	audit         *service.AuditLog
	telemetry     *telemetry.Telemetry
	coderUsers    *coderusers.Users // nil if Coder session tokens are not accepted
	inboundLimits inbound.Limits
	heartbeat     time.Duration    // Options.Heartbeat
	closeGrace    time.Duration    // Options.CloseGrace
	recent        *recentLog       // the last lines of the log; nil without a log
	rates         *admission.Rates // nil if requests are not limited
	slots         *admission.Slots // nil if the number of concurrent calls is not limited
	reloader      reloader
	// forgetProjects makes the core ask the places for their projects again, and returns the names of the places.
	forgetProjects func() []string
	faceKey        []byte // signs MCP sessions and encrypts links to the page at all servers on the store; nil if the store does not answer
	// httpURL is the base URL of REST and MCP: "https://HOST:PORT" with TLS, else "http://HOST:PORT". agentURL is the
	// base URL for agents on this machine, always without TLS. Both are nil while nothing is served.
	httpURL, agentURL atomic.Pointer[string]
}

// Options are set by tests or the command line, in addition to the configuration.
type Options struct {
	Clock  func() time.Time               // this machine's clock; nil means time.Now
	Log    io.Writer                      // receives the log; nil disables logging
	Places []fleet.Place                  // the fleet's places; if empty, the configured places
	Fault  func(point string)             // see state.Config
	Core   func(c *state.Config)          // changes the core's configuration
	Auth   func() admission.Authenticator // identifies callers; if nil, as Config.Auth says
	// LocalUser returns the uid of the user whose calls need no token. If it is nil, that is the user who runs this
	// process.
	LocalUser     func() int
	InboundLimits inbound.Limits // for connections of unknown callers
	Heartbeat     time.Duration  // interval on event streams over HTTP, see rest.Config
	UnreadTimeout time.Duration  // for clients that do not read, see admission.Config
	CloseGrace    time.Duration  // how long the fleet of a Server may take to close; 0 means closeGrace
	// CoderUsers replaces parts of the source of Coder users.
	CoderUsers coderusers.Options
	// Spans returns the exporter of traces, or nil to export none. If Spans itself is nil, none are exported either.
	Spans func(ctx context.Context) (sdk.SpanExporter, error)
	// Reload reads the configuration again, in the same way as the first time. It reads file, the file that was applied last, even if
	// file no longer exists: a removed file is an error, not a server without settings. If no file was applied, file is "". If Reload is
	// nil, the configuration cannot be reloaded.
	Reload           func(file string) (Config, error)
	Providers        func(c *providers.Config)  // changes the configuration of providers
	ProbeEnvironment providers.ProbeEnvironment // used by the probes of providers; if nil, they examine this machine
	Subagents        func(c *subagents.Config)  // changes the configuration of subagents
	Sessions         func(c *sessions.Config)   // changes the configuration of sessions
	Local            func(c *local.Config)      // changes the configuration of agents on this machine
}

// Open opens the fleet in cfg.Data, or in cfg.Store if that is set, and locks cfg.Data until Close. It does not touch
// agents: Start does.
func Open(ctx context.Context, cfg Config, o Options) (_ *App, err error) {
	var recent *recentLog
	if o.Log != nil {
		recent = &recentLog{next: o.Log}
		o.Log = recent
	}
	log, err := newLogger(cfg, o.Log)
	if err != nil {
		return nil, err
	}
	if cfg, err = cfg.withPaths(); err != nil {
		return nil, err
	}
	if len(cfg.unknownEnv) > 0 {
		log.WarnContext(ctx, "unknown environment variables, ignoring them", slog.Any("names", cfg.unknownEnv))
	}
	if err := checkData(cfg.Data); err != nil {
		return nil, err
	}
	lock, err := lockData(cfg.Data)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, lock.release())
		}
	}()
	if cfg.Store == "" {
		if err := cfg.checkImported(); err != nil {
			return nil, err
		}
	}
	beforeReplica := cfg
	if cfg, err = cfg.withReplica(); err != nil {
		return nil, err
	}
	a := &App{reloader: reloader{read: o.Reload, current: beforeReplica}, recent: recent, cfg: cfg, log: log, lock: lock, guard: newGuard(), telemetry: telemetry.New(Version())}
	if a.store, err = cfg.openStore(ctx, o.Clock, log); err != nil {
		return nil, err
	}
	if err := a.startTracing(ctx, o); err != nil {
		return nil, errors.Join(err, a.store.Close())
	}
	a.store = a.telemetry.Store(a.store)
	defer func() {
		if err != nil {
			err = errors.Join(err, a.store.Close())
		}
	}()
	if err := a.claimName(ctx); err != nil {
		return nil, err
	}
	a.heartbeat, a.closeGrace = o.Heartbeat, cmp.Or(o.CloseGrace, closeGrace)
	catalog := newCatalog(cfg)
	a.places = &places{
		cfg: cfg, options: o, store: a.store, catalog: catalog, prices: price.NewList(cfg.Cagent.Prices), log: log, byName: map[string]fleet.Place{},
		wrap:    func(t http.RoundTripper) http.RoundTripper { return outboundTransport{a.telemetry.Transport(t)} },
		service: func() *service.Service { return a.service },
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.places.close())
		}
	}()
	fleetPlaces, err := a.places.fleetPlaces()
	if err != nil {
		return nil, err
	}
	toolsetPlaces, err := a.places.toolsetPlaces()
	if err != nil {
		return nil, err
	}
	if a.peers, err = a.openPeers(ctx); err != nil {
		return nil, err
	}
	key, err := a.store.EnsureSecret(ctx, "faces", []byte(rand.Text()))
	if a.faceKey = key; err != nil {
		log.WarnContext(ctx, "other servers will not accept the MCP sessions and links of this server", slog.Any("error", err))
	}
	a.setOwnPlaces(append(slices.Clone(fleetPlaces), toolsetPlaces...))
	if err := a.openIssuer(o); err != nil {
		return nil, err
	}
	st := a.openCore(o, fleetPlaces, toolsetPlaces)
	a.lifecycle = lifecycle.New(a.service, cfg.Lifecycle, a.baseURL)
	if a.providers, err = newProviders(cfg, o, a.service, log); err != nil {
		return nil, err
	}
	a.subagents = newSubagents(cfg, o, a.service, log)
	a.sessions = newSessions(cfg, o, a.service, catalog, log)
	if err := a.openAdmission(o, st.Config.Now); err != nil {
		return nil, err
	}
	a.channel = newChannel(a.guard)
	a.register(a.channel)
	return a, nil
}

// setOwnPlaces sets a.ownPlaces to the places that are bound to this machine. Of two places with the same name, it uses the first, as
// state.Places does.
func (a *App) setOwnPlaces(all []fleet.Place) {
	a.ownPlaces = map[string]fleet.Place{}
	for _, place := range all {
		name := place.Traits().Name
		if _, server := fleet.SplitPlace(name); server != "" && a.ownPlaces[name] == nil {
			a.ownPlaces[name] = place
		}
	}
}

// openCore sets the service and the reconciler, and the parts that read from them. The places and the issuer must be open.
func (a *App) openCore(o Options, fleetPlaces, toolsetPlaces []fleet.Place) *state.Fleet {
	st := state.New(a.store, a.measuredPlaces(fleetPlaces), a.coreConfig(o, toolsetPlaces))
	a.service = service.New(st)
	a.service.SetTaskReader(rpc.ParseScheduledTask)
	a.reconciler = reconcile.New(st, a.service)
	a.forgetProjects = func() (names []string) {
		for _, p := range st.Places.All {
			p.Catalog.Invalidate()
			names = append(names, p.Name)
		}
		return names
	}
	a.audit = a.service.AuditLog()
	a.telemetry.RegisterSources(a.metricsSources(st))
	return st
}

// openAdmission sets the interceptor of all calls, and the limits that it enforces. The core must be open.
func (a *App) openAdmission(o Options, now func() time.Time) error {
	auth, err := a.authenticator(o)
	if err != nil {
		return err
	}
	limits := a.cfg.Limits
	if !a.cfg.Auth.None() { // without tokens, there is only one principal
		a.rates = admission.NewRates(limits, a.service.LastGroups, a.log, now)
		a.slots = admission.NewSlots(limits, runtime.GOMAXPROCS(0), a.log, a.telemetry.CallWaited)
	}
	a.inboundLimits = o.InboundLimits
	a.interceptor = admission.NewInterceptor(admission.Config{
		Auth: auth, Log: a.log, Remote: inbound.RemoteAddr, Observer: a.telemetry, Rates: a.rates, Slots: a.slots, Audit: a.audit,
		OpenCalls: limits.OpenCalls, UnreadTimeout: o.UnreadTimeout,
	})
	a.guard.nextUnary, a.guard.nextStream = a.interceptor.Unary, a.interceptor.Stream
	return nil
}

// coreConfig returns the configuration of the core. The places and the issuer must be open.
func (a *App) coreConfig(o Options, toolsetPlaces []fleet.Place) state.Config {
	cfg := a.cfg
	core := state.Config{
		CreateWait: cfg.CreateWait, TaskTimeout: cfg.TaskTimeout, StopGrace: cfg.StopGrace, StallTimeout: cfg.StallTimeout, MaxOutput: cfg.MaxOutput, Schema: schema.CompileChecker, Cron: cron.Parse, Price: a.places.prices.Of, MaxBundle: cfg.MaxBundle, Retention: cfg.Retention, PayloadRetention: cfg.PayloadRetention, AuditRetention: cfg.AuditRetention, Limits: cfg.Limits, Pools: cfg.Pools, Credentials: cfg.Credentials,
		Logger: a.log, Fault: o.Fault, OtherPlaces: a.measuredPlaces(toolsetPlaces), OnEventSent: a.telemetry.EventSent, OnTaskStarted: a.telemetry.TaskStarted, OnTicks: a.telemetry.ScheduleTicked, Span: a.telemetry.StartSpan, Replica: cfg.Replica, MCPURL: a.mcpURL, BaseURL: a.baseURL, PullRequest: forge.OpenPullRequest,
		Webhooks: state.Webhooks{
			Sender:      webhook.New(Version(), cfg.Webhooks.Allow),
			MaxPerOwner: cfg.Webhooks.MaxPerOwner, MaxWaiting: cfg.Webhooks.MaxWaiting, Retention: cfg.Webhooks.Retention, OnAttempt: a.telemetry.DeliveryAttempted,
		},
	}
	if a.peers != nil {
		core.OtherServers = a.peers
	}
	if a.issuer != nil {
		core.DegradedParts = a.issuer.Degraded
	}
	if o.Reload != nil {
		core.Reload = a.reload
	}
	if o.Core != nil {
		o.Core(&core)
	}
	return core
}

// register registers the services with the in-process channel or a network server.
func (a *App) register(r grpc.ServiceRegistrar) {
	fleetv1.RegisterFleetServiceServer(r, rpc.NewFleet(a.service))
	fleetv1.RegisterLifecycleServiceServer(r, rpc.NewLifecycle(a.lifecycle))
	fleetv1.RegisterProviderServiceServer(r, rpc.NewProviders(a.providers))
	fleetv1.RegisterSubagentServiceServer(r, rpc.NewSubagents(a.subagents))
	fleetv1.RegisterSessionServiceServer(r, rpc.NewSessions(a.sessions))
	fleetv1.RegisterTokenServiceServer(r, rpc.NewTokens(a.service))
	fleetv1.RegisterTerminalServiceServer(r, rpc.NewTerminals(a.service))
	fleetv1.RegisterHealthServiceServer(r, rpc.NewHealth(a.service, Version(), a.baseURL, a.cfg.Auth))
	grpc_health_v1.RegisterHealthServer(r, rpc.NewStandardHealth(a.service, func(name string) bool {
		d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(name))
		_, ok := d.(protoreflect.ServiceDescriptor)
		return err == nil && ok
	}))
}

// Conn returns the in-process connection to the fleet, for calls of this process itself.
func (a *App) Conn() grpc.ClientConnInterface { return inProcess{channel: a.channel, own: true} }

// Start starts the work on agents and tasks.
func (a *App) Start() {
	if a.issuer != nil {
		a.issuer.Start()
	}
	a.reconciler.Start()
	a.subagents.Start()
	a.sessions.Start()
}

// Close refuses new calls, ends open calls, stops the work, and closes the places and the store. Agents and their runs continue, and the
// next server finds them.
func (a *App) Close() error {
	a.guard.end()
	a.guard.wait()
	a.interceptor.Close()
	a.audit.Close()
	if a.coderUsers != nil {
		a.coderUsers.Close()
	}
	if a.issuer != nil {
		a.issuer.Stop()
	}
	a.sessions.Stop()
	a.subagents.Stop()
	a.reconciler.Stop()
	err := errors.Join(a.places.close(), a.store.Close(), a.lock.release())
	if terr := a.telemetry.Close(); terr != nil {
		a.log.Warn("traces lost", slog.Any("error", terr))
	}
	return err
}

// baseURL returns the URL of this Fleet for callers: PublicURL if it is configured, else ownURL.
func (a *App) baseURL() string {
	if a.cfg.PublicURL != "" {
		return strings.TrimSuffix(a.cfg.PublicURL, "/")
	}
	return a.ownURL()
}

// ownURL returns the URL at which this process serves HTTP. It is empty while the process does not serve.
func (a *App) ownURL() string { return loadString(&a.httpURL) }

// mcpURL returns the URL of the MCP endpoints for agents on this machine. It is empty while the process does not serve.
func (a *App) mcpURL() string {
	if base := loadString(&a.agentURL); base != "" {
		return base + "/mcp"
	}
	return ""
}

func loadString(p *atomic.Pointer[string]) string {
	if s := p.Load(); s != nil {
		return *s
	}
	return ""
}

func newLogger(cfg Config, w io.Writer) (*slog.Logger, error) {
	if w == nil {
		return slog.New(slog.DiscardHandler), nil
	}
	level, err := cfg.logLevel()
	if err != nil {
		return nil, err
	}
	o := &slog.HandlerOptions{Level: level}
	switch cfg.LogFormat {
	case "text":
		return slog.New(telemetry.LogHandler(slog.NewTextHandler(w, o))), nil
	case "json":
		return slog.New(telemetry.LogHandler(slog.NewJSONHandler(w, o))), nil
	}
	return nil, fmt.Errorf("log_format is %q: it must be text or json", cfg.LogFormat)
}
