package app

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"fleet/internal/runner/sandbox"
)

func writeConfig(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), ConfigFile)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// flagSet returns the flags of the settings, with the values in args.
func flagSet(t *testing.T, args ...string) *pflag.FlagSet {
	t.Helper()
	c := DefaultConfig()
	f := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	addFlags(f, &c)
	require.NoError(t, f.Parse(args))
	return f
}

func TestLoadOrder(t *testing.T) {
	t.Parallel()
	path := writeConfig(t, "http: 127.0.0.1:1\ngrpc: 127.0.0.1:2\ncreate_wait: 1s\nallowed_hosts: [a.example]\noutput: {max: 9}\ntls: {cert: a, key: b, client_ca: c}\n")
	c, err := Load(path, []string{"FLEET_GRPC=127.0.0.1:3", "FLEET_CREATE_WAIT=2s", "FLEET_TLS_KEY=e", "HOME=/x"}, flagSet(t, "--create-wait", "3s", "--max-output", "7", "--tls-client-ca", "f"))
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1:1", c.HTTP, "the value of the file must be used")
	require.Equal(t, "127.0.0.1:3", c.GRPC, "the environment must take precedence over the file")
	require.Equal(t, 3*time.Second, c.CreateWait, "flags must take precedence over the environment")
	require.Equal(t, []string{"a.example"}, c.AllowedHosts)
	require.EqualValues(t, 7, c.MaxOutput)
	require.EqualValues(t, 9, c.Output.Max)
	require.Equal(t, TLS{Cert: "a", Key: "e", ClientCA: "f"}, c.TLS, "settings in a section must be loaded from all sources")
	require.Equal(t, DefaultConfig().StopGrace, c.StopGrace)
}

func TestLoadRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		file    string
		environ []string
		flags   []string
		want    string
	}{
		"unknown key":         {file: "htpp: x\n", want: `fleet.yaml:1: unknown key "htpp": did you mean "http"?`},
		"unknown nested key":  {file: "local:\n  projects:\n    - name: a\n      drvier: shell\n", want: `fleet.yaml:4: unknown key "drvier": did you mean "driver"?`},
		"key elsewhere":       {file: "agents_dir: x\n", want: `fleet.yaml:1: unknown key "agents_dir": it belongs in sessions`},
		"key of the top":      {file: "coder:\n  places: [coder]\n", want: `fleet.yaml:2: unknown key "places": it belongs at the top`},
		"key of several":      {file: "repository: x\n", want: `fleet.yaml:1: unknown key "repository": it belongs in local.projects`},
		"no output":           {file: "output: {max: 0}\n", want: "output.max"},
		"wrong type":          {file: "max_output: many\n", want: `fleet.yaml:1: max_output is "many": give a whole number`},
		"a fraction":          {file: "limits:\n  requests_per_second: 0.5\n", want: `fleet.yaml:2: limits.requests_per_second is "0.5": give a whole number`},
		"a unit":              {file: "limits: {principals: {ci: {stored_bytes: 10GiB}}}\n", want: `limits.principals.ci.stored_bytes is "10GiB": give a whole number`},
		"no unit":             {file: "local:\n  projects:\n    - name: a\nretention: 10\n", want: `fleet.yaml:4: retention is "10": give a duration`},
		"two documents":       {file: "auth: none\n---\nauth: tokens\n", want: "fleet.yaml:2: the file has a second document"},
		"a tag":               {file: "places: !x #\n", want: "fleet.yaml:1: the tag !x has no use here"},
		"a late document":     {file: "---\n# the settings\n---\nauth: tokens\n", want: "the file has a second document"},
		"no quotes":           {file: "local: {projects: [{name: a, access: {groups: [oidc:web]}}]}\n", want: "local.projects.access.groups is not a text: put it into quotes"},
		"limits of nobody":    {file: "limits: {groups: {interns: {agents: 1}}}\n", want: "write oidc:GROUP"},
		"no URL":              {file: "public_url: fleet\n", want: "public_url is \"fleet\""},
		"no host":             {file: "allowed_hosts: [https://fleet.example.com]\n", want: "allowed_hosts has"},
		"no YAML":             {file: "http: [\n", want: "fleet.yaml"},
		"variable's value":    {environ: []string{"FLEET_STOP_GRACE=soon"}, want: `FLEET_STOP_GRACE: "soon" is not a duration`},
		"open without tokens": {flags: []string{"--http", "0.0.0.0:8101"}, want: "which others can reach, and auth is none"},
		"any host":            {flags: []string{"--grpc", ":8102"}, want: "which others can reach, and auth is none"},
		"no address":          {flags: []string{"--grpc", "8102"}, want: "HOST:PORT"},
		"auth":                {flags: []string{"--auth", "maybe"}, want: `auth has "maybe": it must be none`},
		"no time":             {flags: []string{"--create-wait", "0s"}, want: "create_wait"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Load(writeConfig(t, c.file), c.environ, flagSet(t, c.flags...))
			require.ErrorContains(t, err, c.want)
		})
	}
	_, err := Load(filepath.Join(t.TempDir(), "none.yaml"), nil, nil)
	require.ErrorContains(t, err, "none.yaml")
	for _, broken := range []string{"http: [", "max_output: many", "auth: tokens"} {
		_, err = Load(writeConfig(t, "auth: tokens\nlocal: {projects: [{name: a, env: {KEY: s3cret}}]}\n"+broken+"\n"), nil, nil)
		require.ErrorContains(t, err, "3:")
		require.NotContains(t, err.Error(), "s3cret", "an error must not contain a secret, because it is logged")
	}
	_, err = Load(writeConfig(t, ""), nil, flagSet(t, "--http", "0.0.0.0:1", "--auth", "tokens", "--tls-cert", "a.pem", "--tls-key", "b.pem"))
	require.NoError(t, err, "with tokens and TLS, other addresses must be allowed")
}

// TestUnknownVariables checks that the server starts with unknown environment variables, and logs a warning.
func TestUnknownVariables(t *testing.T) {
	t.Parallel()
	environ := []string{
		"FLEET_PORT=tcp://10.0.0.1:8101", "FLEET_SERVICE_HOST=10.0.0.1", "FLEET_SERVICE_PORT=8101",
		"FLEET_PORT_8101_TCP_ADDR=10.0.0.1", "FLEET_HTPT=x", "FLEET_DATA=" + t.TempDir(), "FLEET_PLACES=fake",
	}
	c, err := Load(writeConfig(t, ""), environ, nil)
	require.NoError(t, err)
	require.Equal(t, DefaultConfig().HTTP, c.HTTP)
	var log bytes.Buffer
	a, err := Open(t.Context(), c, Options{Log: &log})
	require.NoError(t, err)
	require.NoError(t, a.Close())
	require.Equal(t, 1, strings.Count(log.String(), "level=WARN"), log.String())
	for _, name := range []string{"FLEET_PORT", "FLEET_SERVICE_HOST", "FLEET_SERVICE_PORT", "FLEET_PORT_8101_TCP_ADDR", "FLEET_HTPT (did you mean FLEET_HTTP?)"} {
		require.Contains(t, log.String(), name)
	}
	require.NotContains(t, log.String(), "10.0.0.1", "values may be secrets")
}

// TestSample checks that the sample is a valid configuration and mentions every key.
func TestSample(t *testing.T) {
	t.Parallel()
	c, err := Load(writeConfig(t, string(sample)), nil, nil)
	require.NoError(t, err)
	require.Empty(t, c.Local.Projects, "the programs on PATH must be the projects")
	for _, s := range settings(&c) {
		require.Contains(t, string(sample), s.key[strings.LastIndexByte(s.key, '.')+1:]+":")
	}
}

// TestSampleSettings checks that the commented-out settings of the sample are valid too.
func TestSampleSettings(t *testing.T) {
	t.Parallel()
	commented := regexp.MustCompile(`(?m)^( *)# ( *(?:- )?(?:[\w/:]+:(?: .*)?|\{.*))$`)
	require.Greater(t, len(commented.FindAll(sample, -1)), 100)
	all := commented.ReplaceAllString(string(sample), "$1$2")
	all = strings.Replace(all, "\nauth: none", "\nauth: tokens", 1) // fleet_url needs it
	c, err := Load(writeConfig(t, all), nil, nil)
	require.NoError(t, err)
	require.Len(t, c.Local.Projects, 5)
	require.Contains(t, c.Coder.Projects, "Setup")
	require.Equal(t, 5000, c.Limits.For("ci", nil).Agents)
	require.Equal(t, 20, c.Limits.Projects["webshop"].RunningTasks)
	require.Equal(t, 20, c.Limits.For("someone", []string{"oidc:interns"}).RequestsPerSecond)
	c.Limits.Principals, c.Limits.Groups, c.Limits.Projects, c.Pools, c.Credentials, c.Webhooks.Allow = nil, nil, nil, nil, nil, nil // the sample has examples of these
	require.Empty(t, c.MCP.Tools)
	c.MCP.Tools = nil
	d := DefaultConfig()
	require.Equal(t, []any{d.HTTP, d.CreateWait, d.StallTimeout, d.MaxOutput, d.Output, d.MCP, d.Retention, d.PayloadRetention, d.Limits, d.Places},
		[]any{c.HTTP, c.CreateWait, c.StallTimeout, c.MaxOutput, c.Output, c.MCP, c.Retention, c.PayloadRetention, c.Limits, c.Places},
		"the commented-out settings must have their default values")
}

// TestNetwork checks that a project's network can be a word or a list.
func TestNetwork(t *testing.T) {
	t.Parallel()
	load := func(network string) (sandbox.Network, error) {
		c, err := Load(writeConfig(t, "local:\n  projects:\n    - name: a\n      network: "+network+"\n"), nil, nil)
		if err != nil {
			return "", err
		}
		return c.Local.Projects[0].Network, nil
	}
	for text, want := range map[string]sandbox.Network{
		"none": sandbox.Offline, "full": sandbox.Full, "{allow: [a.example:443, b:80]}": sandbox.Allow("a.example:443", "b:80"), "{allow: []}": sandbox.Allow(),
	} {
		got, err := load(text)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for text, want := range map[string]string{
		"{allow: [a b]}": "a host and a port", "{alow: [a:1]}": `unknown key "alow": did you mean "allow"?`, "{}": "network must be full, none, or a list", "[a:1]": "fleet.yaml",
	} {
		_, err := load(text)
		require.ErrorContains(t, err, want)
	}
}

// TestPlaces checks that the list of a source of settings replaces the list of a source with lower precedence.
func TestPlaces(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		file, env string
		flags     []string
		want      []string
	}{
		{want: []string{"local"}},
		{file: "places: [coder, local]", want: []string{"coder", "local"}},
		{file: "places: [coder, local]", env: "FLEET_PLACES=fake", want: []string{"fake"}},
		{env: "FLEET_PLACES=fake", flags: []string{"--places", "local,cagent"}, want: []string{"local", "cagent"}},
	} {
		got, err := Load(writeConfig(t, x.file), []string{x.env}, flagSet(t, x.flags...))
		require.NoError(t, err)
		require.Equal(t, x.want, got.Places)
	}
}

// TestSettings checks that each setting accepts its own value as text, which is how flags and environment variables set it.
func TestSettings(t *testing.T) {
	t.Parallel()
	c := DefaultConfig()
	for _, s := range settings(&c) {
		require.NotPanics(t, func() { require.NoError(t, s.Set(s.String()), s.key) }, s.key)
	}
	changed, refused := changedSettings(DefaultConfig(), c)
	require.Empty(t, append(changed, refused...))
}

// TestInvalidSettings checks the error of Validate for each invalid value.
func TestInvalidSettings(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*Config){
		`places has "docker": the places are cagent, coder, local`:         func(c *Config) { c.Places = []string{"docker"} },
		`places has "local" twice`:                                         func(c *Config) { c.Places = []string{"local", "local"} },
		`places is empty: name at least one of cagent, coder, local`:       func(c *Config) { c.Places = nil },
		`log_level is "loud": it must be debug, info, warn or error`:       func(c *Config) { c.LogLevel = "loud" },
		`log_format is "xml": it must be text or json`:                     func(c *Config) { c.LogFormat = "xml" },
		`http is "8101": it must be HOST:PORT, for example 127.0.0.1:8101`: func(c *Config) { c.HTTP = "8101" },
		`max_bundle is 0: it must be more than 0 bytes`:                    func(c *Config) { c.MaxBundle = 0 },
		`max_bundle is -1: it must be more than 0 bytes`:                   func(c *Config) { c.MaxBundle = -1 },
	} {
		cfg := DefaultConfig()
		change(&cfg)
		require.EqualError(t, cfg.Validate(), want)
	}
}
