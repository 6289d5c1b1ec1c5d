package app

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"fleet/internal/face/mcp"
	"fleet/internal/face/mcp/tool"
	"fleet/internal/fleet"
	coderusers "fleet/internal/identity/coder"
	"fleet/internal/identity/oidc"
	"fleet/internal/loopback"
	"fleet/internal/place/coder"
	"fleet/internal/place/local"
	"fleet/internal/runner"
	"fleet/internal/runner/sandbox"
	"fleet/internal/state"
	"fleet/internal/store/postgres"
	"fleet/internal/toolset/lifecycle"
	"fleet/internal/toolset/providers"
	"fleet/internal/toolset/sessions"
	"fleet/internal/toolset/subagents"
	"fleet/internal/userdir"
)

// Config is the configuration of a server. Each exported field has a key in fleet.yaml. A field with a help text also has a flag and an
// environment variable: `create_wait`, `--create-wait`, FLEET_CREATE_WAIT.
type Config struct {
	HTTP    string `yaml:"http" help:"address for REST, MCP and the API page"`
	GRPC    string `yaml:"grpc" help:"address for gRPC"`
	Metrics string `yaml:"metrics" help:"separate address for /metrics, with TLS if the http address has it; empty: /metrics is only on the http address, for admins"`
	// MetricsTokenFile lets Prometheus read the metrics without an admin's token.
	MetricsTokenFile string        `yaml:"metrics_token_file" help:"file with the token that readers of the metrics address send as Authorization: Bearer TOKEN; empty: no token is needed"`
	MetricsOpen      bool          `yaml:"metrics_open" help:"serve a metrics address that others can reach without metrics_token_file"`
	Data             string        `yaml:"data" help:"directory for the database, the agents and their work"`
	Store            string        `yaml:"store" help:"where the fleet is kept: empty for SQLite in data, or postgres://USER@HOST/DATABASE, which several servers can share"`
	Replica          string        `yaml:"replica" help:"name of this server among the servers that share a Postgres store; empty: a generated name that is kept in data"`
	Peer             string        `yaml:"peer" help:"address at which other servers on the same Postgres store read from this machine; if it has no host, they use the name of this machine"`
	Auth             Auth          `yaml:"auth" help:"who may call: none (loopback addresses only), or one or several of tokens, coder (session tokens) and oidc"`
	AnyLocalUser     bool          `yaml:"any_local_user" help:"with auth none: serve every user of this machine, not only the server's own"`
	Places           []string      `yaml:"places" help:"where agents live, one or several of local, coder and cagent; fake has no real agents and is for tests and for trying clients"`
	AllowedHosts     []string      `yaml:"allowed_hosts" help:"host names, besides localhost, under which clients reach the http address"`
	CreateWait       time.Duration `yaml:"create_wait" help:"how long a call that creates, starts, stops or deletes an agent waits for the result"`
	TaskTimeout      time.Duration `yaml:"task_timeout" help:"how long a task may run if its request names no timeout"`
	StopGrace        time.Duration `yaml:"stop_grace" help:"how long an interrupted task may take to end before it is killed; 0s: the default of the place"`
	StallTimeout     time.Duration `yaml:"stall_timeout" help:"how long a task may be without output, while no tool runs, before it is shown as stalled; less than 0: never"`
	MaxOutput        int64         `yaml:"max_output" help:"how much output of a task is kept, in bytes"`
	MaxBundle        int64         `yaml:"max_bundle" help:"the largest bundle of a deleted agent's unpushed work that is kept, in bytes"`
	KeptRetention    time.Duration `yaml:"kept_retention" help:"how long the directory of a deleted agent on this machine is kept if it may have work that exists nowhere else; less than 0: for ever"`
	KeptMax          int64         `yaml:"kept_max" help:"the size of all kept directories of deleted agents, in bytes; the oldest are removed first; less than 0: no limit"`
	Retention        time.Duration `yaml:"retention" help:"how long events and request ids are kept; less than 0: for ever"`
	// PayloadRetention does not apply to the tasks themselves: they are kept until they are deleted.
	PayloadRetention time.Duration `yaml:"payload_retention" help:"how long payloads are kept after their tasks have ended; less than 0: for ever"`
	AuditRetention   time.Duration `yaml:"audit_retention" help:"how long lines of the audit log are kept; less than 0: for ever"`
	PublicURL        string        `yaml:"public_url" help:"URL at which callers reach REST, for links in answers; empty: the http address"`
	RunnerDir        string        `yaml:"runner_dir" help:"directory with fleet-runner-linux-amd64 and -arm64, which workspaces download at /runner/; empty: the directory of this program"`
	LogLevel         string        `yaml:"log_level" help:"lowest level to log: debug, info, warn or error"`
	LogFormat        string        `yaml:"log_format" help:"form of the log: text or json"`
	// InsecurePlaintext is for a server behind a proxy, or in a network that only trusted users can read.
	InsecurePlaintext bool   `yaml:"insecure_plaintext" help:"serve addresses that others can reach without TLS, for example behind a proxy that speaks TLS. With auth coder, it also allows an http URL of Coder"`
	AgentsHTTP        string `yaml:"agents_http" help:"with tls: the loopback address at which agents on this machine reach MCP and REST without it"`
	TLS               TLS    `yaml:"tls"`
	// Limits limits what each principal may use.
	Limits fleet.Limits `yaml:"limits"`
	// Pools are the pools that only the configuration changes.
	Pools []fleet.PoolSetting `yaml:"pools"`
	// Credentials are the keys and the subscriptions that projects share.
	Credentials []fleet.CredentialSetting `yaml:"credentials"`
	Webhooks    Webhooks                  `yaml:"webhooks"`
	Local       Local                     `yaml:"local"`
	Coder       coder.Config              `yaml:"coder"`
	// CoderAuth configures which Coder users may call. It is used with auth coder.
	CoderAuth coderusers.Config `yaml:"coder_auth"`
	// OIDC configures the issuer of auth oidc.
	OIDC oidc.Config `yaml:"oidc"`
	// Lifecycle configures contracts and their agents.
	Lifecycle lifecycle.Config `yaml:"lifecycle"`
	// Providers configures agents for single requests.
	Providers providers.Settings `yaml:"providers"`
	// Subagents configures agents that are defined by files.
	Subagents subagents.Settings `yaml:"subagents"`
	// Sessions configures conversations with agents that are defined in files or artifacts.
	Sessions sessions.Settings `yaml:"sessions"`
	Output   Output            `yaml:"output"`
	MCP      MCP               `yaml:"mcp"`
	// Cagent configures model agents.
	Cagent Cagent `yaml:"cagent"`

	unknownEnv []string // unknown FLEET_ variables of the environment

	file string // absolute path of the file from which this configuration was read; empty: no file
}

// TLS names the files with the listeners' certificates and keys. Changed files are read again.
type TLS struct {
	Cert     string `yaml:"cert" help:"file with the certificate of the http and grpc addresses and its intermediate authorities, in PEM"`
	Key      string `yaml:"key" help:"file with the private key of tls.cert, in PEM"`
	ClientCA string `yaml:"client_ca" help:"file with the authorities of client certificates, in PEM; gRPC clients must then have one"`
}

// enabled reports whether the listeners speak TLS.
func (t TLS) enabled() bool { return t.Cert != "" }

// Local configures the agents on this machine.
type Local struct {
	// Projects are the projects for agents. If it is empty, there is a project "shell", and one for each agent CLI on
	// PATH.
	Projects []local.Project `yaml:"projects"`
	// Sandbox is the default confinement of agents' programs.
	Sandbox sandbox.Mode `yaml:"sandbox"`
	// Read and Write are paths that the programs of all agents may read, or read and write, besides the system and
	// their own files.
	Read  []string `yaml:"read"`
	Write []string `yaml:"write"`
	// PassEnv names environment variables of the server that all agents get.
	PassEnv []string `yaml:"pass_env"`
	// CacheMax limits the size of the caches that the agents of one owner share in one project, in bytes. A negative value is no
	// limit.
	CacheMax int64 `yaml:"cache_max"`
}

// Output configures how much raw output of runs is kept.
type Output struct {
	// Max is how much raw output of a run is kept, in bytes.
	Max int64 `yaml:"max"`
}

// Webhooks limits webhooks, and the hosts that they may reach.
type Webhooks struct {
	// Allow names hosts, each HOST or HOST:PORT, that webhooks may reach besides public ones. Their URLs may begin with http.
	Allow []string `yaml:"allow"`
	// MaxPerOwner is how many webhooks an owner may have.
	MaxPerOwner int `yaml:"max_per_owner"`
	// MaxWaiting is how many deliveries of a webhook may wait.
	MaxWaiting int `yaml:"max_waiting"`
	// Retention is how long deliveries are kept.
	Retention time.Duration `yaml:"retention"`
}

func (w Webhooks) validate() error {
	for _, host := range w.Allow {
		if host == "" || strings.ContainsAny(host, "/* @") {
			return fmt.Errorf("webhooks.allow has %q: it must be a host such as hooks.internal or 10.0.0.5:8080, without scheme and wildcards", host)
		}
	}
	if w.MaxPerOwner <= 0 || w.MaxWaiting <= 0 {
		return errors.New("webhooks.max_per_owner and webhooks.max_waiting must be more than 0")
	}
	if shortest := 4 * 24 * time.Hour; w.Retention < shortest {
		return fmt.Errorf("webhooks.retention is %s: it must be at least %s, because deliveries are tried for three days", w.Retention, shortest)
	}
	return nil
}

// MCP configures the MCP face.
type MCP struct {
	// MaxResult limits the text in the result of a tool, in bytes.
	MaxResult int `yaml:"max_result"`
	// Tools are the tools of /mcp, see mcp.Config.Tools.
	Tools []string `yaml:"tools"`
}

// DefaultConfig returns the configuration of a server that has no file, flags or variables.
func DefaultConfig() Config {
	return Config{
		HTTP: "127.0.0.1:8101", GRPC: "127.0.0.1:8102", AgentsHTTP: "127.0.0.1:8104", Peer: "127.0.0.1:0", Data: userdir.Data(),
		Auth: Auth{AuthNone}, Places: []string{"local"}, CreateWait: 45 * time.Second, TaskTimeout: 24 * time.Hour, StallTimeout: 10 * time.Minute,
		MaxOutput: 16 << 20, MaxBundle: state.DefaultMaxBundle, KeptRetention: local.DefaultKeptRetention, KeptMax: local.DefaultKeptMax, Retention: 30 * 24 * time.Hour, PayloadRetention: 90 * 24 * time.Hour, AuditRetention: 365 * 24 * time.Hour, LogLevel: "info", LogFormat: "text",
		Limits:   fleet.Limits{Agents: 1000, RunningTasks: 500, StoredBytes: 10 << 30, RequestsPerSecond: 1000, OpenCalls: 5000, CallsPerCPU: 16, WaitingCalls: 1000, WaitingTime: 10 * time.Second},
		Local:    Local{CacheMax: local.DefaultCacheMax},
		Output:   Output{Max: runner.DefaultMaxRawOutput},
		MCP:      MCP{MaxResult: tool.DefaultMaxResult},
		Webhooks: Webhooks{MaxPerOwner: 20, MaxWaiting: 10_000, Retention: 14 * 24 * time.Hour},
	}
}

// Validate returns an error that names an invalid key, if there is one.
func (c Config) Validate() error {
	if err := c.Auth.validate(); err != nil {
		return err
	}
	if c.Auth.Has(AuthOIDC) {
		if err := c.OIDC.Validate(); err != nil {
			return err
		}
	}
	if c.Store != "" && !postgres.IsURL(c.Store) {
		return errors.New("store is not a URL like postgres://USER@HOST/DATABASE: leave it out for SQLite in the data directory") // without the value, which may have a password
	}
	if u, err := url.Parse(c.PublicURL); c.PublicURL != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
		return fmt.Errorf("public_url is %q: it must be a URL such as https://fleet.example.com", c.PublicURL)
	}
	for _, name := range c.AllowedHosts {
		if name == "" || strings.ContainsAny(name, "/*") {
			return fmt.Errorf("allowed_hosts has %q: it must be a host name such as fleet.example.com, without scheme and wildcards", name)
		}
	}
	if _, _, err := net.SplitHostPort(c.Peer); err != nil {
		return fmt.Errorf("peer is %q: it must be HOST:PORT, for example 10.0.0.5:8105", c.Peer)
	}
	if c.Replica != "" && !validReplicaName.MatchString(c.Replica) {
		return fmt.Errorf("replica is %q: use up to 40 small letters, digits, hyphens and dots", c.Replica)
	}
	if err := c.validatePlaces(); err != nil {
		return err
	}
	if _, err := c.logLevel(); err != nil {
		return err
	}
	if c.LogFormat != "text" && c.LogFormat != "json" {
		return fmt.Errorf("log_format is %q: it must be text or json", c.LogFormat)
	}
	if err := c.validateAmounts(); err != nil {
		return err
	}
	if err := mcp.CheckTools(c.MCP.Tools); err != nil {
		return fmt.Errorf("mcp.tools: %w", err)
	}
	if c.Data == "" {
		return errors.New("data is empty, because it was set so or because HOME is not set: set HOME, or name a directory with data (--data, FLEET_DATA)")
	}
	if err := c.validateSections(); err != nil {
		return err
	}
	for key, addr := range map[string]string{"http": c.HTTP, "grpc": c.GRPC} {
		if err := c.validateAddress(key, addr); err != nil {
			return err
		}
	}
	return c.validateMetrics()
}

// validateAmounts returns an error if a duration or a size is out of its range.
func (c Config) validateAmounts() error {
	for key, d := range map[string]time.Duration{"create_wait": c.CreateWait, "task_timeout": c.TaskTimeout} {
		if d <= 0 {
			return fmt.Errorf("%s is %s: it must be more than 0", key, d)
		}
	}
	if c.StallTimeout == 0 {
		return fmt.Errorf("stall_timeout is 0: use a positive value, or a negative one so that no task counts as stalled")
	}
	if c.StopGrace < 0 {
		return fmt.Errorf("stop_grace is %s: it must be 0, for the place's default, or more", c.StopGrace)
	}
	if c.MaxOutput <= 0 {
		return fmt.Errorf("max_output is %d: it must be more than 0 bytes", c.MaxOutput)
	}
	if c.MaxBundle <= 0 {
		return fmt.Errorf("max_bundle is %d: it must be more than 0 bytes", c.MaxBundle)
	}
	if c.KeptRetention == 0 || c.KeptMax == 0 {
		return fmt.Errorf("kept_retention and kept_max must not be 0: work that exists nowhere else would be lost at once; use a negative value for no limit")
	}
	if c.Local.CacheMax == 0 {
		return fmt.Errorf("local.cache_max must not be 0: use a negative value for no limit, or caches: agent in a project whose agents share no caches")
	}
	if c.Output.Max <= 0 {
		return fmt.Errorf("output.max is %d: it must be more than 0 bytes", c.Output.Max)
	}
	if c.MCP.MaxResult < mcp.MinMaxResult {
		return fmt.Errorf("mcp.max_result is %d: it must be at least %d bytes", c.MCP.MaxResult, mcp.MinMaxResult)
	}
	return nil
}

// validateSections returns an error if a setting in a section is invalid, or contradicts another setting.
func (c Config) validateSections() error {
	if err := c.CoderAuth.Validate(); err != nil {
		return err
	}
	if err := c.validateCoderAuth(cmp.Or(c.CoderAuth.URL, c.Coder.URL)); err != nil {
		return err
	}
	if err := c.validateFleetURL(); err != nil {
		return err
	}
	if err := c.Limits.Validate(); err != nil {
		return err
	}
	if err := fleet.ValidatePools(c.Pools); err != nil {
		return err
	}
	if err := fleet.ValidateCredentials(c.Credentials, c.credentialsBySetting()); err != nil {
		return err
	}
	if err := c.Webhooks.validate(); err != nil {
		return err
	}
	if err := c.validateToolsets(); err != nil {
		return err
	}
	return c.validateTLS()
}

// validateToolsets returns an error if the settings of a toolset are invalid.
func (c Config) validateToolsets() error {
	if err := c.Lifecycle.Validate(drivers()); err != nil {
		return err
	}
	if err := c.Providers.Validate(drivers()); err != nil {
		return err
	}
	if err := c.Subagents.Validate(); err != nil {
		return err
	}
	return c.Sessions.Validate()
}

// validateMetrics returns an error if the settings would let other machines read the metrics by accident.
func (c Config) validateMetrics() error {
	if c.Metrics == "" {
		if c.MetricsTokenFile != "" {
			return errors.New("metrics_token_file is for an address of its own: set metrics too, or leave it out, because admins read /metrics on the http address")
		}
		return nil
	}
	host, _, err := net.SplitHostPort(c.Metrics)
	switch {
	case err != nil:
		return fmt.Errorf("metrics is %q: it must be HOST:PORT, for example 127.0.0.1:8103, or empty", c.Metrics)
	case loopback.Is(host):
	case c.MetricsTokenFile == "" && !c.MetricsOpen:
		return fmt.Errorf("metrics is %q, which others can reach: set metrics_token_file, or metrics_open if all of them may read it, or use a loopback address", c.Metrics)
	case !c.TLS.enabled() && !c.InsecurePlaintext:
		return fmt.Errorf("metrics is %q, which others can reach, and it would cross the network unencrypted: set tls.cert and tls.key, or insecure_plaintext if a proxy in front of it speaks TLS", c.Metrics)
	}
	return nil
}

// validateTLS returns an error if the settings of TLS contradict each other, or if agents_http is not a loopback address.
func (c Config) validateTLS() error {
	switch {
	case (c.TLS.Cert == "") != (c.TLS.Key == ""):
		return errors.New("tls.cert and tls.key belong together: name both files, or none")
	case c.TLS.ClientCA != "" && !c.TLS.enabled():
		return errors.New("tls.client_ca needs tls.cert and tls.key: clients show their certificates only over TLS")
	}
	if !loopback.IsAddress(c.AgentsHTTP) {
		return fmt.Errorf("agents_http is %q: it must be a loopback address with a port, for example 127.0.0.1:8104", c.AgentsHTTP)
	}
	return nil
}

// validatePlaces returns an error if there are no places, or if a place is unknown or named twice.
func (c Config) validatePlaces() error {
	if len(c.Places) == 0 {
		return fmt.Errorf("places is empty: name at least one of %s", strings.Join(placeNames, ", "))
	}
	for i, name := range c.Places {
		switch {
		case name != fakePlace && !slices.Contains(placeNames, name):
			return fmt.Errorf("places has %q: the places are %s", name, strings.Join(placeNames, ", "))
		case slices.Contains(c.Places[:i], name):
			return fmt.Errorf("places has %q twice", name)
		}
	}
	return nil
}

// logLevel returns the minimum level of the log, or an error if log_level is not a level.
func (c Config) logLevel() (level slog.Level, err error) {
	if err := level.UnmarshalText([]byte(c.LogLevel)); err != nil {
		return 0, fmt.Errorf("log_level is %q: it must be debug, info, warn or error", c.LogLevel)
	}
	return level, nil
}

// validateAddress returns an error if the address of the key is invalid, or if it would let other machines call a server that asks
// for no tokens, or read unencrypted traffic.
func (c Config) validateAddress(key, addr string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("%s is %q: it must be HOST:PORT, for example 127.0.0.1:8101", key, addr)
	}
	if c.Auth.None() && !loopback.Is(host) {
		return fmt.Errorf("%s is %q, which others can reach, and auth is none: use a loopback address, or set auth to tokens (`fleet token create` makes one), coder or oidc", key, addr)
	}
	if !c.TLS.enabled() && !c.InsecurePlaintext && !loopback.Is(host) {
		return fmt.Errorf("%s is %q, which others can reach, and tokens would cross the network unencrypted: set tls.cert and tls.key, or insecure_plaintext if a proxy in front of it speaks TLS", key, addr)
	}
	return nil
}
