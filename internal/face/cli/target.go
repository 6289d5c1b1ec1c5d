package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spf13/cobra"

	"fleet/internal/face/cli/login"
)

// DefaultServer is the server that commands use by default. It is the default gRPC address of "fleet serve".
const DefaultServer = "127.0.0.1:8102"

// defaultPort is the port of a server address without a port.
const defaultPort = "8102"

// Target is the server that a command talks to, with the caller's token.
type Target struct {
	// Server is HOST:PORT of the gRPC listener.
	Server string
	// Login is the caller's sign-in with "fleet login", which is used if Token is empty. It is nil if the caller is not
	// signed in or has given a token.
	Login *login.TokenSource
	// Token is the secret that identifies the caller; empty if the caller has given no token.
	Token string
	// TokenFile is the file that Token was read from; empty if Token is not from a file.
	TokenFile string
	// Insecure disables TLS even if Server is not on this machine. TLS enables it even if Server is on this machine.
	Insecure, TLS bool
	// CAFile is a file with the certificate authorities that are trusted; empty means the authorities of the system.
	CAFile string
	// ClientCert and ClientKey are the files with the caller's certificate and its private key; empty if the caller has
	// no certificate.
	ClientCert, ClientKey string
	// Embedded uses an in-process server on the data in Data instead of Server.
	Embedded bool
	// Data is the directory of the embedded server; empty means the default.
	Data string
}

// TargetOf returns the target that the persistent flags and the environment select. It is for commands that the app adds.
func TargetOf(cmd *cobra.Command) (Target, error) {
	p, ok := cmd.Context().Value(programKey{}).(*program)
	if !ok {
		return Target{}, Fail(ExitError, "", "the command %q does not belong to this command line", cmd.CommandPath())
	}
	return p.target()
}

// target returns the target that the persistent flags and the environment select. Flags take precedence. A stored sign-in is used only if
// no token is given.
func (p *program) target() (Target, error) {
	t := Target{Server: cmp.Or(p.server, p.deps.Getenv("FLEET_SERVER"), DefaultServer), Insecure: p.insecure, Embedded: p.embedded, Data: p.data, CAFile: p.caFile, ClientCert: p.clientCert, ClientKey: p.clientKey}
	if t.Embedded && p.server != "" {
		return t, usagef("--embedded and --server exclude each other: an embedded instance runs in this process")
	}
	for name, value := range map[string]*string{
		"FLEET_DATA": &t.Data, "FLEET_CA_FILE": &t.CAFile, "FLEET_CLIENT_CERT": &t.ClientCert, "FLEET_CLIENT_KEY": &t.ClientKey,
	} {
		if *value == "" {
			*value = p.deps.Getenv(name)
		}
	}
	if (t.ClientCert == "") != (t.ClientKey == "") {
		return t, usagef("--client-cert and --client-key belong together: name both files, or none")
	}
	var err error
	if !t.Embedded {
		if t.Server, t.TLS = strings.CutPrefix(t.Server, "https://"); t.TLS {
			t.Server = strings.TrimSuffix(t.Server, "/")
		}
		if t.TLS && t.Insecure {
			return t, usagef("https:// and --insecure exclude each other")
		}
		if t.Server, err = normalizeAddress(t.Server); err != nil {
			return t, err
		}
	}
	if t.Token, t.TokenFile, err = p.givenToken(); err != nil || t.Token != "" || t.Embedded {
		return t, err
	}
	if l, err := p.deps.Logins.Get(t.Server); err != nil || l != nil {
		t.Login = &login.TokenSource{Store: p.deps.Logins, Server: t.Server}
		return t, err
	}
	return t, nil
}

// normalizeAddress checks the server's HOST:PORT and adds a missing host or port.
func normalizeAddress(server string) (string, error) {
	if strings.Contains(server, "/") {
		return "", usagef("the server %q is not HOST:PORT or https://HOST:PORT; name the gRPC listener, e.g. %s, without http:// and path", server, DefaultServer)
	}
	host, port, err := net.SplitHostPort(server)
	if err != nil {
		host, port = strings.Trim(server, "[]"), defaultPort
		if strings.Contains(host, ":") && net.ParseIP(host) == nil {
			return "", usagef("the server %q is not HOST:PORT, e.g. %s", server, DefaultServer)
		}
	}
	if host == "" {
		host = "127.0.0.1"
	}
	if _, err := net.LookupPort("tcp", port); err != nil || port == "" {
		return "", usagef("the server %q has no usable port; write HOST:PORT, e.g. %s", server, DefaultServer)
	}
	return net.JoinHostPort(host, port), nil
}

// givenToken returns the token that the flags or the environment give, and the file that it was read from, if any. --token-file comes before
// FLEET_TOKEN, and FLEET_TOKEN before FLEET_TOKEN_FILE. Errors never contain any part of the token.
func (p *program) givenToken() (secret, file string, err error) {
	source := "FLEET_TOKEN"
	file = p.tokenFile
	if file == "" {
		secret = p.deps.Getenv("FLEET_TOKEN")
	}
	if file == "" && secret == "" {
		file = p.deps.Getenv("FLEET_TOKEN_FILE")
	}
	if file != "" {
		source = file
		data, err := os.ReadFile(file)
		if err != nil {
			return "", "", usagef("cannot read the token: %v", err)
		}
		if secret = strings.TrimSpace(string(data)); secret == "" {
			return "", "", usagef(`the token file %s is empty; write the token into it that "fleet token create" printed`, file)
		}
	}
	secret = strings.TrimSpace(secret)
	for _, r := range secret {
		if r <= ' ' || r > '~' {
			return "", "", usagef("%s does not hold one token: a token has no spaces, line breaks or special characters", source)
		}
	}
	return secret, file, nil
}

// token returns the token for the next call: the given token, or an ID token of the sign-in. It returns "" if the caller has neither.
// If the token cannot be renewed and another try may succeed, the error has a gRPC status, with which calls are repeated.
func (t Target) token(ctx context.Context) (string, error) {
	if t.Token != "" || t.Login == nil {
		return t.Token, nil
	}
	token, err := t.Login.Token(ctx)
	switch {
	case errors.Is(err, login.ErrSessionEnded):
		return "", Fail(ExitDenied, `sign in again with "fleet login"`, "your session with %s has ended", t.Server)
	case err != nil && ctx.Err() != nil:
		return "", status.FromContextError(ctx.Err()).Err()
	case err != nil:
		return "", renewalError{&failure{
			code: ExitUnavailable, reason: "UNREACHABLE", message: fmt.Sprintf("your session with %s cannot be used: %v", t.Server, err),
			hint: `try again, or sign in again with "fleet login"`,
		}}
	}
	return token, nil
}

// renewalError says why a token could not be renewed. For gRPC it has the status Unavailable.
type renewalError struct{ *failure }

func (e renewalError) Unwrap() error { return e.failure }

// GRPCStatus returns the status of the call that needed the token.
func (e renewalError) GRPCStatus() *status.Status { return status.New(codes.Unavailable, e.Error()) }
