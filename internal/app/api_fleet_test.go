package app

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"fleet/internal/face/inbound"
	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/service"
	"fleet/internal/state"
	"fleet/internal/store/postgres/pgtest"
	"fleet/internal/store/sqlite/sqlitetest"
	"fleet/internal/toolset/lifecycle"
	"fleet/internal/waittest"
)

// fleetConfig configures a test fleet. The zero value is a fleet without tokens.
type fleetConfig struct {
	ListError  string        // error of the first place's listings from the start; empty: no error
	CreateWait time.Duration // 0: 1 min
	MaxResult  int           // maximum size of a tool's result; 0: the default
	StopGrace  time.Duration // 0: 50 ms
	// MessageWait is how long the sender of a message waits; 0: 1 min.
	MessageWait  time.Duration
	StallTimeout time.Duration // 0: tasks never stall
	Place        fake.Config
	// Second is a second place of the fleet; nil: there is only one place. SecondListError is the error of its listings
	// from the start.
	Second          *fake.Config
	SecondListError string
	Limits          fleet.Limits

	MaxContracts int                    // limit of concurrent contracts of a principal; 0: the default
	Tokens       map[string]tokenConfig // by name; if it is not empty, the fleet requires tokens
	Config       func(c *Config)        // changes to the configuration; may be nil
	Options      func(o *Options)       // changes to the options; may be nil
}

// tokenConfig is a token that exists from the start.
type tokenConfig struct {
	Kind  fleet.PrincipalKind `yaml:"kind"`
	Admin bool                `yaml:"admin"`
	Scope string              `yaml:"scope"` // empty: run
	// Projects are the projects for which the token is valid; empty: all projects.
	Projects []string `yaml:"projects"`
	Revoked  bool     `yaml:"revoked"`
}

// testFleet is a complete fleet with loopback listeners. Its places are fakes.
type testFleet struct {
	*Server
	t             *testing.T
	place         *fake.Place       // the first place
	second        *fake.Place       // the second place; may be nil
	placeListings chan struct{}     // receives when the fleet lists the first place
	secrets       map[string]string // secrets of the tokens, by name
	http          *http.Client
	conn          *grpc.ClientConn
	gates         map[string]*fake.Gate // by what they hold, such as "runs"
	configFile    string                // the configuration file that the fleet reads when it is reloaded
	variables     map[string]string     // texts that steps and cases have saved, by name
	stop          func() error          // stops the server and waits for it

	mu         sync.Mutex
	mcpClients map[string]*client.Client // MCP clients, by name of the token and toolset
}

// testConfig returns the configuration of a server at free loopback addresses, with a data directory of its own and the fake place.
func testConfig(t *testing.T) Config {
	t.Helper()
	cfg := DefaultConfig()
	cfg.HTTP, cfg.GRPC, cfg.Data, cfg.Places = "127.0.0.1:0", "127.0.0.1:0", t.TempDir(), []string{fakePlace}
	return cfg
}

// newTestFleet returns a fleet that has executed the steps. It is on SQLite, and in `make test-postgres` on Postgres.
func newTestFleet(t *testing.T, c fleetConfig, steps ...step) *testFleet {
	t.Helper()
	cfg := c.serverConfig(t)
	f := &testFleet{
		t: t, placeListings: make(chan struct{}, 1), secrets: map[string]string{}, variables: map[string]string{}, mcpClients: map[string]*client.Client{},
		gates: map[string]*fake.Gate{}, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}},
		configFile: filepath.Join(cfg.Data, ConfigFile),
	}
	f.createPlaces(c)
	a, err := Open(t.Context(), cfg, f.serverOptions(c, cfg))
	require.NoError(t, err)
	f.Server, err = a.Listen("test")
	require.NoError(t, err)
	f.serve()

	for name, token := range c.Tokens {
		f.createToken(name, token)
	}
	f.conn, err = grpc.NewClient(f.GRPCAddr(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20), grpc.MaxCallSendMsgSize(64<<20)))
	require.NoError(t, err)
	f.prepare(t, steps...)
	return f
}

// serverConfig returns the configuration of the server. It creates the store, unless c.Config names one.
func (c fleetConfig) serverConfig(t *testing.T) Config {
	t.Helper()
	cfg := testConfig(t)
	cfg.Limits = c.Limits
	cfg.LogLevel, cfg.Sessions.AgentsDir = "debug", filepath.Join("..", "..", "testdata", "sessions")
	cfg.Lifecycle = lifecycle.Config{Project: "Setup", Role: "coder", MaxRunning: c.MaxContracts}
	cfg.MCP.Tools = []string{"*"}
	cfg.MCP.MaxResult = cmp.Or(c.MaxResult, cfg.MCP.MaxResult)
	cfg.StallTimeout = cmp.Or(c.StallTimeout, -1)
	cfg.CreateWait, cfg.StopGrace = cmp.Or(c.CreateWait, time.Minute), cmp.Or(c.StopGrace, 50*time.Millisecond)
	if len(c.Tokens) > 0 {
		cfg.Auth = Auth{AuthTokens}
	}
	if c.Config != nil {
		c.Config(&cfg)
	}
	require.NoError(t, cfg.Validate())
	switch {
	case cfg.Store != "":
	case pgtest.Enabled():
		cfg.Store = pgtest.URL(t)
	default:
		require.NoError(t, sqlitetest.Create(cfg.sqlitePath()))
	}
	return cfg
}

// createPlaces creates the first place and, if c has one, the second place.
func (f *testFleet) createPlaces(c fleetConfig) {
	c.Place.Before = f.signalLists(c.Place.Before)
	c.Place.Traits.SupportsChanges, c.Place.Traits.SupportsChecks, c.Place.Traits.SupportsBundles, c.Place.Traits.SupportsOutput = true, true, true, true
	if c.Place.Traits.Drivers == nil {
		c.Place.Traits.Drivers = []fleet.Driver{
			{Name: "cagent", NeedsDocument: true},
			{Name: "claude", EnforcesTools: true, Asks: true, SupportsMCPServers: true, ReachesFleet: true, Remembers: true},
			{Name: "command", NeedsCommand: true},
			{Name: "codex"},
			{Name: "gemini"},
			{Name: "opencode"},
		}
	}
	f.place = fake.New(c.Place)
	if c.ListError != "" {
		f.place.Fail(fake.List, 1<<30, fleet.Errorf(fleet.ReasonPermissionDenied, "%s", c.ListError))
	}
	if c.Second == nil {
		return
	}
	c.Second.Before = f.signalLists(c.Second.Before)
	f.second = fake.New(*c.Second)
	if c.SecondListError != "" {
		f.second.Fail(fake.List, 1<<30, fleet.Errorf(fleet.ReasonPermissionDenied, "%s", c.SecondListError))
	}
}

// serverOptions returns the options of the server with the configuration cfg and the places of f.
func (f *testFleet) serverOptions(c fleetConfig, cfg Config) Options {
	// On a loaded machine, the defaults are too short for calls without a token, for clients that read late, and for closing.
	inboundLimits := inbound.Limits{Lifetime: waittest.Limit}
	o := Options{Places: []fleet.Place{f.place}, InboundLimits: inboundLimits, UnreadTimeout: waittest.Limit, CloseGrace: waittest.Limit, Core: func(core *state.Config) {
		core.PoolBackoff = waittest.Limit
		core.PollInterval, core.MessageWait = 100*time.Millisecond, cmp.Or(c.MessageWait, time.Minute)
		core.ListingGap, core.ProbeTimeout = waittest.Limit, waittest.Limit
		core.Webhooks.Sender = newReceivers()
	}}
	if f.second != nil {
		o.Places = append(o.Places, f.second)
	}
	o.Reload = func(string) (Config, error) {
		next := cfg
		if _, err := os.Stat(f.configFile); err != nil {
			return next, nil
		}
		if err := readConfig(f.configFile, &next); err != nil {
			return next, err
		}
		return next, next.Validate()
	}
	o.ProbeEnvironment, o.Providers, o.Subagents, o.Sessions = testProbeEnvironment{}, configureTestProviders, configureTestSubagents, configureTestSessions
	if testing.Verbose() {
		o.Log = logWriter{f.t}
	}
	if c.Options != nil {
		c.Options(&o)
	}
	return o
}

// signalLists returns a Before hook for a place. The hook signals each listing on f.placeListings, and calls next, which may be
// nil.
func (f *testFleet) signalLists(next func(context.Context, fake.Call) error) func(context.Context, fake.Call) error {
	return func(ctx context.Context, call fake.Call) error {
		if call.Method == fake.List {
			select {
			case f.placeListings <- struct{}{}:
			default:
			}
		}
		if next != nil {
			return next(ctx, call)
		}
		return nil
	}
}

// serve starts the server. At the end of the test, it closes the clients, stops the server, and checks that the calls of the place did
// not overlap.
func (f *testFleet) serve() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- f.Serve(ctx) }()
	f.stop = sync.OnceValue(func() error { cancel(); return <-ended })
	f.t.Cleanup(func() {
		for _, c := range f.mcpClients {
			_ = c.Close()
		}
		if f.conn != nil {
			_ = f.conn.Close()
		}
		f.http.CloseIdleConnections()
		require.NoError(f.t, f.stop())
		f.place.Destroy()
		if f.second != nil {
			f.second.Destroy()
		}
		require.Empty(f.t, f.place.Overlaps())
	})
}

func (f *testFleet) createToken(name string, c tokenConfig) {
	f.t.Helper()
	if c.Kind == "" {
		c.Kind = fleet.KindHuman
	}
	admin := fleet.WithPrincipal(f.t.Context(), fleet.Principal{Name: "root", Scope: fleet.ScopeAdmin})
	scope, _ := fleet.ParseScope(cmp.Or(c.Scope, "run"))
	if c.Admin {
		scope = fleet.ScopeAdmin
	}
	_, secret, _, err := f.service.CreateToken(admin, service.CreateTokenRequest{Name: name, Kind: c.Kind, Scope: scope, Projects: c.Projects})
	require.NoError(f.t, err)
	f.secrets[name] = secret
	if c.Revoked {
		_, err = f.service.RevokeToken(admin, name)
		require.NoError(f.t, err)
	}
}

// authorization returns the Authorization header for the token with the name, or "" for an empty name. For an unknown
// name, the header has an invalid secret.
func (f *testFleet) authorization(name string) string {
	if name == "" {
		return ""
	}
	if secret, ok := f.secrets[name]; ok {
		return "Bearer " + secret
	}
	return "Bearer " + name
}

// url returns the URL of the path at the address of REST and MCP.
func (f *testFleet) url(path string) string { return "http://" + f.HTTPAddr() + path }

// send sends an HTTP request, and returns the response and its body.
func (f *testFleet) send(t *testing.T, verb, url, body string, header map[string]string) (resp *http.Response, content string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), verb, url, strings.NewReader(body))
	require.NoError(t, err)
	for k, v := range header {
		r.Header.Set(k, v)
	}
	resp, err = f.http.Do(r)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp, string(b)
}

// get sends a GET request, and returns the status and the body of the response. authorization is the value of the Authorization
// header; "" means no header.
func (f *testFleet) get(t *testing.T, url, authorization string) (status int, body string) {
	t.Helper()
	header := map[string]string{}
	if authorization != "" {
		header["Authorization"] = authorization
	}
	resp, body := f.send(t, http.MethodGet, url, "", header)
	return resp.StatusCode, body
}

// post sends a POST request with a JSON body to REST or MCP, and returns the response and its body.
func (f *testFleet) post(t *testing.T, path, authorization, body string) (resp *http.Response, content string) {
	t.Helper()
	return f.send(t, http.MethodPost, f.url(path), body, map[string]string{
		"Authorization": authorization, "Content-Type": "application/json", "Accept": "application/json, text/event-stream",
	})
}

// listAgentsTool is the MCP message that calls the tool list_agents.
const listAgentsTool = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list_agents","arguments":{}}}`

// authContext returns a context for gRPC calls with the token of that name.
func (f *testFleet) authContext(ctx context.Context, name string) context.Context {
	if a := f.authorization(name); a != "" {
		return metadata.AppendToOutgoingContext(ctx, "authorization", a)
	}
	return ctx
}

// mcpClient returns an MCP client of the toolset with the token of that name. Further calls return the same client.
func (f *testFleet) mcpClient(ctx context.Context, name, toolset string) (*client.Client, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := name + "/" + toolset
	if c := f.mcpClients[key]; c != nil {
		return c, nil
	}
	headers := map[string]string{}
	if a := f.authorization(name); a != "" {
		headers["Authorization"] = a
	}
	c, err := client.NewStreamableHttpClient("http://"+f.HTTPAddr()+"/mcp/"+toolset, transport.WithHTTPBasicClient(f.http), transport.WithHTTPHeaders(headers))
	if err != nil {
		return nil, err
	}
	if err := c.Start(context.WithoutCancel(ctx)); err != nil {
		return nil, err
	}
	r := mcp.InitializeRequest{}
	r.Params.ClientInfo = mcp.Implementation{Name: "test", Version: "1"}
	if _, err := c.Initialize(ctx, r); err != nil {
		return nil, err
	}
	f.mcpClients[key] = c
	return c, nil
}

// logWriter writes a server's log to the test's log, until the test ends.
type logWriter struct{ t *testing.T }

func (w logWriter) Write(b []byte) (int, error) {
	if w.t.Context().Err() == nil {
		w.t.Logf("%s", b)
	}
	return len(b), nil
}
