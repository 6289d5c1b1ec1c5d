package cli

import (
	"cmp"
	"context"
	"errors"
	"net"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"fleet/internal/face/cli/login"
)

// DefaultServer is the default gRPC address of "fleet serve".
const DefaultServer = "127.0.0.1:8102"

const defaultPort = "8102"

// TargetOf returns the target given by the persistent flags and the environment, for commands that the app adds.
func TargetOf(cmd *cobra.Command) (Target, error) {
	p, ok := cmd.Context().Value(programKey{}).(*program)
	if !ok {
		return Target{}, Fail(ExitError, "", "the command %q does not belong to this command line", cmd.CommandPath())
	}
	return p.target()
}

// target combines the flags with the environment. Flags take precedence.
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
	if t.Token, t.TokenFile, err = p.token(); err != nil || t.Token != "" || t.Embedded {
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

// token returns the secret that identifies the caller, and the file that it was read from, if any. Errors never contain
// any part of the secret.
func (p *program) token() (secret, file string, err error) {
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

// token returns the secret that identifies the caller of the next call, or "" if the caller has none.
func (t Target) token(ctx context.Context) (string, error) {
	if t.Token != "" || t.Login == nil {
		return t.Token, nil
	}
	token, err := t.Login.Token(ctx)
	switch {
	case errors.Is(err, login.ErrEnded):
		return "", Fail(ExitDenied, `sign in again with "fleet login"`, "your session with %s has ended", t.Server)
	case err != nil:
		return "", Fail(ExitDenied, `try again, or sign in again with "fleet login"`, "your session with %s cannot be used: %v", t.Server, err)
	}
	return token, nil
}
