package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNormalizeAddress(t *testing.T) {
	t.Parallel()
	for server, want := range map[string]string{
		"127.0.0.1:1": "127.0.0.1:1", "fleet.example.com": "fleet.example.com:8102", ":9": "127.0.0.1:9", "[::1]:9": "[::1]:9", "::1": "[::1]:8102",
		"http://x:1": "", "x:y:z": "", "x:": "", "x:99999999": "", "a/b": "",
	} {
		got, err := normalizeAddress(server)
		require.Equal(t, want == "", err != nil, server)
		require.Equal(t, want, got)
	}
}

func TestTargetOfFlagsAndEnvironment(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte("from-file\n"), 0o600))
	empty := filepath.Join(t.TempDir(), "empty")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	for _, c := range []struct {
		name string
		args []string
		env  map[string]string
		want Target
		err  string
	}{
		{name: "nothing", want: Target{Server: DefaultServer}},
		{name: "environment", env: map[string]string{"FLEET_SERVER": "e:1", "FLEET_TOKEN": "t", "FLEET_DATA": "d"}, want: Target{Server: "e:1", Token: "t", Data: "d"}},
		{name: "flags win", args: []string{"--server", "f:2", "--token-file", file, "--data", "x", "--insecure"}, env: map[string]string{"FLEET_SERVER": "e:1", "FLEET_TOKEN": "t", "FLEET_DATA": "d"}, want: Target{Server: "f:2", Token: "from-file", TokenFile: file, Data: "x", Insecure: true}},
		{name: "file of the environment", env: map[string]string{"FLEET_TOKEN_FILE": file}, want: Target{Server: DefaultServer, Token: "from-file", TokenFile: file}},
		{name: "TLS", args: []string{"--server", "https://localhost:1/", "--ca-file", "ca"}, env: map[string]string{"FLEET_CLIENT_CERT": "c", "FLEET_CLIENT_KEY": "k"}, want: Target{Server: "localhost:1", TLS: true, CAFile: "ca", ClientCert: "c", ClientKey: "k"}},
		{name: "TLS and not", args: []string{"--server", "https://localhost", "--insecure"}, err: "exclude each other"},
		{name: "no key", args: []string{"--client-cert", "c"}, err: "belong together"},
		{name: "embedded", args: []string{"--embedded"}, env: map[string]string{"FLEET_SERVER": "e:1"}, want: Target{Server: "e:1", Embedded: true}},
		{name: "both", args: []string{"--embedded", "--server", "f:2"}, err: "exclude each other"},
		{name: "no file", args: []string{"--token-file", "nowhere"}, err: "cannot read the token"},
		{name: "empty file", args: []string{"--token-file", empty}, err: "is empty"},
		{name: "two words", env: map[string]string{"FLEET_TOKEN": "my secret"}, err: "FLEET_TOKEN does not hold one token"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newProgram(Deps{Getenv: func(k string) string { return c.env[k] }})
			require.NoError(t, p.root.ParseFlags(c.args))
			got, err := p.target()
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				require.NotContains(t, err.Error(), "secret")
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}

// TestPlaintextOnlyOnLoopback checks that connections without TLS, and tokens on them, are for this machine only, unless --insecure is set.
func TestPlaintextOnlyOnLoopback(t *testing.T) {
	t.Parallel()
	for server, want := range map[string]bool{
		"127.0.0.1:1": true, "127.9.9.9:1": true, "localhost:1": true, "[::1]:1": true, "10.0.0.1:1": false, "localhost.example.com:1": false, "fleet:1": false,
	} {
		require.Equal(t, want, Target{Server: server}.isPlaintext())
		require.Equal(t, !want, tokenCredentials{plaintext: Target{Server: server}.isPlaintext()}.RequireTransportSecurity())
		require.True(t, Target{Server: server, Insecure: true}.isPlaintext())
		for _, encrypted := range []Target{{Server: server, TLS: true}, {Server: server, CAFile: "f"}, {Server: server, ClientCert: "f"}} {
			require.False(t, encrypted.isPlaintext())
		}
	}
}
