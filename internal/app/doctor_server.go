package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net"
	"strings"
	"syscall"
	"time"

	"fleet/internal/face/inbound"
	"fleet/internal/fleet"
	"fleet/internal/identity/oidc"
	"fleet/internal/loopback"
)

// expiresSoon is how long before its expiry a certificate or a token counts as expiring soon.
const expiresSoon = 14 * 24 * time.Hour

// checkTLS examines the files with the listeners' certificates and keys.
func (d *doctor) checkTLS(context.Context) {
	if !d.cfg.TLS.enabled() {
		return
	}
	pair, err := inbound.KeyFiles{Cert: d.cfg.TLS.Cert, Key: d.cfg.TLS.Key}.Load()
	next := "renew the certificate; a running server uses the new files without a restart"
	switch {
	case err != nil:
		d.add(verdictFailed, "tls", "let tls.cert and tls.key name a certificate and its key, in PEM, that the server's user can read", "%v", err)
	case time.Now().Before(pair.Leaf.NotBefore):
		d.add(verdictFailed, "tls", "check the clock of this machine", "the certificate is valid only from %s", pair.Leaf.NotBefore.Format(time.RFC3339))
	case time.Now().After(pair.Leaf.NotAfter):
		d.add(verdictFailed, "tls", next, "the certificate expired on %s", pair.Leaf.NotAfter.Format(time.RFC3339))
	case time.Until(pair.Leaf.NotAfter) < expiresSoon:
		d.add(verdictWarning, "tls", next, "the certificate expires on %s", pair.Leaf.NotAfter.Format(time.RFC3339))
	default:
		d.add(verdictOK, "tls", "", "the certificate is valid until %s", pair.Leaf.NotAfter.Format(time.RFC3339))
	}
	if d.cfg.TLS.ClientCA != "" {
		if _, err := inbound.ReadAuthorities(d.cfg.TLS.ClientCA); err != nil {
			d.add(verdictFailed, "tls", "let tls.client_ca name a file with certificates in PEM", "%v", err)
		}
	}
}

// checkMetrics examines the token of the metrics address.
func (d *doctor) checkMetrics(context.Context) {
	if d.cfg.MetricsTokenFile == "" {
		return
	}
	if _, err := readMetricsToken(d.cfg.MetricsTokenFile); err != nil {
		d.add(verdictFailed, "metrics", "let metrics_token_file name a file with a token that the server's user can read", "%v", err)
		return
	}
	d.add(verdictOK, "metrics", "", "%s needs the token in %s", d.cfg.Metrics, d.cfg.MetricsTokenFile)
}

// checkAddresses reports the state of the server if it runs. Otherwise it checks that the server's addresses are free.
func (d *doctor) checkAddresses(ctx context.Context) {
	all := map[string]string{"http": d.cfg.HTTP, "grpc": d.cfg.GRPC, "metrics": d.cfg.Metrics}
	if d.cfg.TLS.enabled() {
		all["agents_http"] = d.cfg.AgentsHTTP
	}
	if status, degraded, err := askReadiness(ctx, d.cfg.plainAddress()); err == nil {
		switch {
		case status != "ready":
			d.add(verdictFailed, "server", "see the lines above, and its log", "it runs at %s and is not ready: %s", d.cfg.HTTP, cmp.Or(degraded, "it gives no reason"))
		case degraded != "":
			d.add(verdictWarning, "server", "see the lines above", "it runs at %s, and this does not work: %s", d.cfg.HTTP, degraded)
		default:
			d.add(verdictOK, "server", "", "it runs at %s and is ready", d.cfg.HTTP)
		}
		return
	}
	for _, key := range []string{"http", "grpc", "agents_http", "metrics"} {
		addr := all[key]
		if addr == "" {
			continue
		}
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
		switch {
		case errors.Is(err, syscall.EADDRINUSE):
			d.add(verdictFailed, "address "+key, "stop it, or set "+key+" to another address", "another program uses %s", addr)
		case err != nil:
			d.add(verdictFailed, "address "+key, "set "+key+" to an address of this machine", "%v", err)
		default:
			_ = l.Close()
			d.add(verdictOK, "address "+key, "", "%s is free", addr)
		}
	}
}

// plainAddress returns the HOST:PORT at which programs on this machine reach REST without TLS.
func (c Config) plainAddress() string {
	if c.TLS.enabled() {
		return loopback.DialAddress(c.AgentsHTTP)
	}
	return loopback.DialAddress(c.HTTP)
}

// askReadiness requests /readyz from the server at the address. status is "ready" for a server that can work. degraded lists the
// parts that do not work, with the reasons. If the answer is not from a Fleet, askReadiness returns an error.
func askReadiness(ctx context.Context, addr string) (status, degraded string, err error) {
	body, err := askServer(ctx, addr, "/readyz", "")
	if err != nil {
		return "", "", err
	}
	type parts struct {
		Degraded []struct{ Part, Reason string }
	}
	var answer struct {
		Status string
		parts
		Error   string // of a server that is not ready
		Details parts
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return "", "", err
	}
	if answer.Error == string(fleet.ReasonBackendUnavailable) {
		answer.Status, answer.parts = "not ready", answer.Details
	}
	for i, p := range answer.Degraded {
		if i > 0 {
			degraded += "; "
		}
		degraded += p.Part + ": " + p.Reason
	}
	if answer.Status == "" {
		return "", "", errors.New("not a Fleet")
	}
	return answer.Status, degraded, nil
}

// checkIssuer checks that the OpenID Connect issuer of sign-ins answers, and has the scopes that the server requests.
func (d *doctor) checkIssuer(ctx context.Context) {
	if !d.cfg.Auth.Has(AuthOIDC) {
		return
	}
	asked := time.Now()
	x, next, err := oidc.Examine(ctx, d.cfg.OIDC)
	d.checkClock("the issuer's", asked, x.Clock)
	switch {
	case err != nil:
		d.add(verdictFailed, "oidc", next, "%v", err)
	case len(x.MissingScopes) > 0:
		d.add(verdictWarning, "oidc", "correct oidc.scopes, or add the scopes at the issuer", "%s does not have the scopes %s", d.cfg.OIDC.Issuer, strings.Join(x.MissingScopes, ", "))
	default:
		d.add(verdictOK, "oidc", "", "%s answers, with %d keys", d.cfg.OIDC.Issuer, x.KeyCount)
	}
}
