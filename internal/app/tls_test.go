package app

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/face/inbound/certtest"
	"fleet/internal/waittest"
)

// tlsFleet is a fleet that speaks TLS, with a token for alice. Its HTTP client keeps cookies and accepts the server's certificate, as
// a browser does.
type tlsFleet struct {
	*testFleet
	ca  *certtest.Authority
	dir string // directory with the server's certificate
}

func newTLSFleet(t *testing.T, change func(*tlsFleet, *Config)) *tlsFleet {
	t.Helper()
	f := &tlsFleet{ca: certtest.New(t), dir: t.TempDir()}
	f.testFleet = newTestFleet(t, fleetConfig{Tokens: map[string]tokenConfig{"alice": {}}, Config: func(c *Config) {
		c.TLS.Cert, c.TLS.Key = f.ca.WriteFiles(t, f.dir, "first")
		c.AgentsHTTP = "127.0.0.1:0"
		if change != nil {
			change(f, c)
		}
	}})
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	f.http = &http.Client{Jar: jar, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: f.ca.Pool, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true}}
	return f
}

// dial returns a gRPC client of the server. The client uses TLS unless c is nil.
func (f *tlsFleet) dial(t *testing.T, c *tls.Config) fleetv1.FleetServiceClient {
	t.Helper()
	transport := insecure.NewCredentials()
	if c != nil {
		c.RootCAs, c.MinVersion = f.ca.Pool, tls.VersionTLS12
		transport = credentials.NewTLS(c)
	}
	conn, err := grpc.NewClient(f.GRPCAddr(), grpc.WithTransportCredentials(transport))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	return fleetv1.NewFleetServiceClient(conn)
}

// TestTLS calls every face over TLS, and the address for agents without TLS.
func TestTLS(t *testing.T) {
	t.Parallel()
	f := newTLSFleet(t, nil)
	_, err := f.dial(t, &tls.Config{}).ListAgents(f.authContext(t.Context(), "alice"), &fleetv1.ListAgentsRequest{})
	require.NoError(t, err)
	_, err = f.dial(t, &tls.Config{}).ListAgents(t.Context(), &fleetv1.ListAgentsRequest{})
	require.Equal(t, codes.Unauthenticated, status.Code(err))

	alice := map[string]string{"Authorization": f.authorization("alice")}
	resp, body := f.send(t, http.MethodGet, "https://"+f.HTTPAddr()+"/v1/agents", "", alice)
	require.Equal(t, http.StatusOK, resp.StatusCode, body)
	require.Equal(t, 2, resp.ProtoMajor, "the client and the server must negotiate HTTP/2")
	require.Empty(t, resp.Header.Get("Strict-Transport-Security"))
	code, _ := f.get(t, "https://"+f.HTTPAddr()+"/v1/agents", "")
	require.Equal(t, http.StatusUnauthorized, code)
	code, body = f.get(t, "http://"+f.agentsListener.Addr().String()+"/v1/agents", f.authorization("alice"))
	require.Equal(t, http.StatusOK, code, body)
	require.Equal(t, "http://"+f.agentsListener.Addr().String()+"/mcp", f.mcpURL())

	tr, err := transport.NewStreamableHTTP("https://"+f.HTTPAddr()+"/mcp", transport.WithHTTPBasicClient(f.http), transport.WithHTTPHeaders(alice))
	require.NoError(t, err)
	m := client.NewClient(tr)
	defer m.Close()
	_, err = m.Initialize(t.Context(), mcp.InitializeRequest{})
	require.NoError(t, err)
	result, err := m.CallTool(t.Context(), mcp.CallToolRequest{Params: mcp.CallToolParams{Name: "list_agents"}})
	require.NoError(t, err)
	require.False(t, result.IsError)

	// Browsers must send the page's cookie only over TLS.
	resp, _ = f.send(t, http.MethodPost, "https://"+f.HTTPAddr()+"/session", fmt.Sprintf(`{"token":%q}`, f.secrets["alice"]), nil)
	require.Len(t, resp.Cookies(), 1)
	require.True(t, resp.Cookies()[0].Secure)

	require.Equal(t, "https://"+f.HTTPAddr(), f.baseURL(), "the base URL must be the address with TLS")
}

// TestPlaintextToTLS checks the errors for a client without TLS and for a client with an old version of TLS.
func TestPlaintextToTLS(t *testing.T) {
	t.Parallel()
	f := newTLSFleet(t, nil)
	code, body := f.get(t, f.url("/v1/agents"), f.authorization("alice"))
	require.Equal(t, http.StatusBadRequest, code)
	require.Contains(t, body, "HTTP request to an HTTPS server")

	_, err := f.dial(t, nil).ListAgents(f.authContext(t.Context(), "alice"), &fleetv1.ListAgentsRequest{})
	require.Equal(t, codes.Unavailable, status.Code(err))

	for _, addr := range []string{f.HTTPAddr(), f.GRPCAddr()} {
		d := tls.Dialer{Config: &tls.Config{RootCAs: f.ca.Pool, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}}
		_, err := d.DialContext(t.Context(), "tcp", addr)
		require.ErrorContains(t, err, "protocol version not supported")
	}
}

// TestCommandLineOverTLS checks which settings the command line needs to reach a server with TLS. It also checks the
// errors if a setting is missing.
func TestCommandLineOverTLS(t *testing.T) {
	t.Parallel()
	clients := certtest.New(t)
	f := newTLSFleet(t, func(_ *tlsFleet, c *Config) { c.TLS.ClientCA = clients.File })
	token := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(token, []byte(f.secrets["alice"]), 0o600))
	cert, key := clients.WriteFiles(t, t.TempDir(), "alice")
	_, port, err := net.SplitHostPort(f.GRPCAddr())
	require.NoError(t, err)
	secure := []string{"--server", "https://localhost:" + port}
	trusting := append(secure, "--ca-file", f.ca.File)
	for want, args := range map[string][]string{
		"":                              append(trusting, "--client-cert", cert, "--client-key", key),
		"wants a client certificate":    trusting,
		"with --ca-file":                secure,
		"name it as https://localhost:": {"--server", "localhost:" + port},
	} {
		var out, errs bytes.Buffer
		p := &program{version: "test", stdin: strings.NewReader(""), stdout: &out, stderr: &errs}
		code := p.run(t.Context(), append([]string{"agent", "list", "--token-file", token}, args...))
		require.Equal(t, want == "", code == 0, errs.String())
		require.Contains(t, errs.String(), want)
	}
}

// TestRotation replaces the certificate while a stream is open. The stream must continue, and new connections must get
// the new certificate.
func TestRotation(t *testing.T) {
	t.Parallel()
	f := newTLSFleet(t, nil)
	ctx := f.authContext(t.Context(), "alice")
	old := f.dial(t, &tls.Config{})
	_, err := old.CreateAgent(ctx, &fleetv1.CreateAgentRequest{Name: "papi", Project: "Setup", Spec: "s"})
	require.NoError(t, err)
	events, err := old.WatchFleet(ctx, &fleetv1.WatchFleetRequest{Follow: true})
	require.NoError(t, err)
	_, err = events.Recv()
	require.NoError(t, err)

	f.ca.WriteFiles(t, f.dir, "second")
	for _, addr := range []string{f.HTTPAddr(), f.GRPCAddr()} {
		d := tls.Dialer{Config: &tls.Config{RootCAs: f.ca.Pool, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2"}}}
		c, err := d.DialContext(t.Context(), "tcp", addr)
		require.NoError(t, err)
		require.Equal(t, "second", c.(*tls.Conn).ConnectionState().PeerCertificates[0].Subject.CommonName)
		require.NoError(t, c.Close())
	}
	_, err = f.dial(t, &tls.Config{}).CreateAgent(ctx, &fleetv1.CreateAgentRequest{Name: "later", Project: "Setup", Spec: "s"})
	require.NoError(t, err)
	for seen := false; !seen; { // the open stream must continue
		m, err := events.Recv()
		require.NoError(t, err)
		for _, e := range m.GetEvents() {
			seen = seen || e.GetAgentName() == "later"
		}
	}
}

// TestClientCertificates checks that gRPC with client_ca requires a certificate of that authority in addition to a
// token.
func TestClientCertificates(t *testing.T) {
	t.Parallel()
	clients, strangers := certtest.New(t), certtest.New(t)
	f := newTLSFleet(t, func(_ *tlsFleet, c *Config) { c.TLS.ClientCA = clients.File })
	pair := func(ca *certtest.Authority, until time.Duration) *tls.Config {
		cert, err := tls.X509KeyPair(ca.Issue(t, "alice", time.Now().Add(until)))
		require.NoError(t, err)
		// The client shows the certificate even if the server does not list its authority.
		return &tls.Config{GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cert, nil }}
	}
	list := func(ctx context.Context, c *tls.Config) error {
		_, err := f.dial(t, c).ListAgents(ctx, &fleetv1.ListAgentsRequest{})
		return err
	}
	alice := f.authContext(t.Context(), "alice")
	require.NoError(t, list(alice, pair(clients, time.Hour)))
	require.Equal(t, codes.Unauthenticated, status.Code(list(t.Context(), pair(clients, time.Hour))), "a certificate must not replace a token")
	for name, c := range map[string]*tls.Config{"none": {}, "of a stranger": pair(strangers, time.Hour), "expired": pair(clients, -time.Hour)} {
		require.Equal(t, codes.Unavailable, status.Code(list(alice, c)), name)
	}
	code, body := f.get(t, "https://"+f.HTTPAddr()+"/v1/agents", f.authorization("alice"))
	require.Equal(t, http.StatusOK, code, body)
}

// TestPlaintextNeedsSetting checks that tokens can cross a network only over TLS, unless insecure_plaintext is set. It also
// checks that the settings of TLS must be complete.
func TestPlaintextNeedsSetting(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*Config){
		`http is "0.0.0.0:8101", which others can reach, and tokens would cross the network unencrypted: set tls.cert and tls.key`: func(c *Config) { c.HTTP = "0.0.0.0:8101" },
		`grpc is ":8102"`:               func(c *Config) { c.GRPC = ":8102" },
		"tls.cert and tls.key belong":   func(c *Config) { c.TLS.Cert = "a" },
		"tls.client_ca needs":           func(c *Config) { c.TLS.ClientCA = "a" },
		`agents_http is "0.0.0.0:8104"`: func(c *Config) { c.AgentsHTTP = "0.0.0.0:8104" },
		"with auth coder, the tokens of callers would cross the network":                     func(c *Config) { c.Auth, c.Coder.URL = Auth{AuthCoder}, "http://coder.example.com" },
		`coder.fleet_url is "http://fleet.example.com", so the tokens of agents would cross`: func(c *Config) { c.Coder.FleetURL = "http://fleet.example.com" },
		"coder.fleet_url opens the server to workspaces, and auth is none":                   func(c *Config) { c.Auth, c.Coder.FleetURL = Auth{AuthNone}, "https://fleet.example.com" },
		"": func(c *Config) {
			c.Auth, c.Coder.URL, c.HTTP, c.InsecurePlaintext = Auth{AuthCoder}, "http://coder.example.com", "0.0.0.0:8101", true
		},
	} {
		c := DefaultConfig()
		c.Auth = Auth{AuthTokens}
		change(&c)
		if err := c.Validate(); want != "" {
			require.ErrorContains(t, err, want)
		} else {
			require.NoError(t, err)
		}
	}
	c := DefaultConfig()
	c.Auth, c.HTTP, c.GRPC, c.TLS = Auth{AuthTokens}, ":8101", ":8102", TLS{Cert: "a", Key: "b"}
	require.NoError(t, c.Validate())
}

// TestAgentsReachAServerOnAllAddresses starts a server that listens on all addresses without TLS. Agents on its machine must
// get a URL at which it answers.
func TestAgentsReachAServerOnAllAddresses(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t, fleetConfig{Tokens: map[string]tokenConfig{"alice": {}}, Config: func(c *Config) { c.HTTP, c.InsecurePlaintext = "0.0.0.0:0", true }})
	_, err := fleetv1.NewFleetServiceClient(f.conn).ListAgents(f.authContext(t.Context(), "alice"), &fleetv1.ListAgentsRequest{})
	require.NoError(t, err, "the server must know its URLs before it answers calls")
	for _, url := range []string{strings.TrimSuffix(f.mcpURL(), "/mcp") + "/v1/agents", f.ownURL() + "/v1/agents"} {
		code, _ := f.get(t, url, f.authorization("alice"))
		require.Equal(t, http.StatusOK, code, url)
	}
}

// TestUnknownCallersOverTLS checks that the limits for connections of unknown callers also apply over TLS.
func TestUnknownCallersOverTLS(t *testing.T) {
	t.Parallel()
	f := newTLSFleet(t, nil)
	d := tls.Dialer{Config: &tls.Config{RootCAs: f.ca.Pool, MinVersion: tls.VersionTLS12}}
	c, err := d.DialContext(t.Context(), "tcp", f.HTTPAddr())
	require.NoError(t, err)
	defer c.Close()
	_, err = io.WriteString(c, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 60000\r\n\r\n")
	require.NoError(t, err)
	for range 1000 { // 1 MB over one connection is more than an unknown caller may send
		if _, err = c.Write(make([]byte, 1000)); err != nil {
			break
		}
	}
	require.NoError(t, c.SetReadDeadline(time.Now().Add(waittest.Limit)))
	_, err = io.Copy(io.Discard, c)
	var timeout net.Error
	require.False(t, errors.As(err, &timeout) && timeout.Timeout(), "the server must close the connection")
}
