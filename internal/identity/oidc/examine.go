package oidc

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Examination is the result of Examine.
type Examination struct {
	Keys  int       // how many keys it publishes that can verify tokens
	Clock time.Time // its time; zero if it does not tell
	// Missing are the scopes of the configuration that it does not list; empty if it lists none at all.
	Missing []string
}

// Examine asks the issuer what a server needs of it. If there is an error, next says what to do.
func Examine(ctx context.Context, config Config) (x Examination, next string, err error) {
	i, err := New(config, nil, slog.New(slog.DiscardHandler), time.Now)
	if err != nil {
		return x, "correct the settings below oidc", err
	}
	defer i.Stop()
	dates := &dated{next: http.DefaultTransport}
	i.client.Transport = dates
	defer func() { x.Clock = dates.last() }()

	var about struct {
		Issuer string   `json:"issuer"`
		Keys   string   `json:"jwks_uri"`
		Scopes []string `json:"scopes_supported"`
	}
	if err := getJSON(ctx, i.client, strings.TrimSuffix(i.config.Issuer, "/")+"/.well-known/openid-configuration", &about); err != nil {
		return x, "check oidc.issuer, the network and the issuer: nobody can sign in with it", err
	}
	if about.Issuer != i.config.Issuer {
		return x, "set oidc.issuer to the name that the issuer gives itself, to the letter", fmt.Errorf("%s calls itself %q", i.config.Issuer, about.Issuer)
	}
	k := &keys{url: about.Keys, client: i.client, limit: i.limit}
	if err := k.fetch(ctx); err != nil {
		return x, "let the issuer publish its keys where this server can read them: tokens cannot be checked", fmt.Errorf("its keys cannot be read: %w", err)
	}
	x.Keys = len(k.current)
	for _, scope := range i.config.Scopes {
		if len(about.Scopes) > 0 && !slices.Contains(about.Scopes, scope) {
			x.Missing = append(x.Missing, scope)
		}
	}
	return x, "", nil
}

// dated remembers the time that a server gives with its answers.
type dated struct {
	next http.RoundTripper
	mu   sync.Mutex
	at   time.Time
}

// RoundTrip implements http.RoundTripper.
func (d *dated) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := d.next.RoundTrip(r)
	if err == nil {
		if at, err := http.ParseTime(answer.Header.Get("Date")); err == nil {
			d.mu.Lock()
			d.at = at
			d.mu.Unlock()
		}
	}
	return answer, err
}

func (d *dated) last() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.at
}
