package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"fleet/internal/loopback"
)

// maxMessageSize is the largest message to or from a server, in bytes. Payloads and lists of very large fleets need it.
const maxMessageSize = 256 << 20

// DialNetwork is the Dialer for network servers. It uses TLS unless the target disables it or the server is on this machine
// and no setting asks for TLS. It does not wait for the connection; the first call reports connection errors.
func DialNetwork(ctx context.Context, t Target) (grpc.ClientConnInterface, func() error, error) {
	if t.Embedded {
		return nil, nil, Fail(ExitError, "leave --embedded out, and start a server", "this program has no embedded server")
	}
	plaintext, transport := t.isPlaintext(), insecure.NewCredentials()
	if !plaintext {
		c, err := t.tlsConfig()
		if err != nil {
			return nil, nil, err
		}
		transport = credentials.NewTLS(c)
	}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(transport),
		grpc.WithUserAgent("fleet-cli"),
		grpc.WithDisableServiceConfig(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessageSize), grpc.MaxCallSendMsgSize(maxMessageSize)),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second},
			MinConnectTimeout: 5 * time.Second,
		}),
		// Without these pings, a command that follows events would wait for a server that is paused or has lost its power until the
		// system gives up the connection. The server accepts one every 10 s.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 15 * time.Second, Timeout: 10 * time.Second}),
	}
	token, err := t.token(ctx)
	if err != nil {
		return nil, nil, err
	}
	if token != "" {
		options = append(options, grpc.WithPerRPCCredentials(tokenCredentials{target: t, plaintext: plaintext}))
	}
	conn, err := grpc.NewClient(t.Server, options...)
	if err != nil {
		return nil, nil, err
	}
	return conn, conn.Close, nil
}

// isPlaintext reports whether calls to the target go without TLS: if Insecure is set, or if the server is on this machine
// and neither TLS nor a certificate is set.
func (t Target) isPlaintext() bool {
	return t.Insecure || loopback.IsAddress(t.Server) && !t.TLS && t.CAFile == "" && t.ClientCert == ""
}

// tlsConfig returns the configuration of connections to the target.
func (t Target) tlsConfig() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, usagef("cannot read the certificate authorities: %v", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, usagef("%s contains no certificate in PEM format", t.CAFile)
		}
	}
	if t.ClientCert != "" {
		pair, err := tls.LoadX509KeyPair(t.ClientCert, t.ClientKey)
		if err != nil {
			return nil, usagef("cannot use the client certificate: %v", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// httpClient returns a client for the server's HTTP address.
func (t Target) httpClient() (*http.Client, error) {
	config, err := t.tlsConfig()
	return &http.Client{Transport: &http.Transport{TLSClientConfig: config, Proxy: http.ProxyFromEnvironment}}, err
}

// tokenCredentials sends a token with every call.
type tokenCredentials struct {
	target    Target
	plaintext bool
}

// GetRequestMetadata returns the header that carries the token. The status of the error is Unauthenticated if the person has to sign in
// again.
func (t tokenCredentials) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	token, err := t.target.token(ctx)
	if err != nil {
		if _, isStatus := status.FromError(err); isStatus {
			return nil, err
		}
		return nil, status.Error(codes.Unauthenticated, err.Error())
	}
	return map[string]string{"authorization": "Bearer " + token}, nil
}

// RequireTransportSecurity reports whether the token may only be sent over TLS.
func (t tokenCredentials) RequireTransportSecurity() bool { return !t.plaintext }
