package oidc

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Examination is the result of Examine.
type Examination struct {
	KeyCount int       // how many keys the issuer publishes that can verify tokens
	Clock    time.Time // the issuer's time; zero if its responses have no date
	// MissingScopes are the configured scopes that the issuer does not list. It is empty if the issuer lists no scopes at all.
	MissingScopes []string
}

// Examine checks that the issuer publishes what a server needs: its metadata and its keys. If there is an error, next
// says what to do.
func Examine(ctx context.Context, config Config) (x Examination, next string, err error) {
	i, err := New(config, nil, slog.New(slog.DiscardHandler), time.Now)
	if err != nil {
		return x, "correct the settings below oidc", err
	}
	defer i.Stop()

	var document struct {
		Issuer  string   `json:"issuer"`
		KeysURL string   `json:"jwks_uri"`
		Scopes  []string `json:"scopes_supported"`
	}
	header, err := getJSON(ctx, i.client, strings.TrimSuffix(i.config.Issuer, "/")+"/.well-known/openid-configuration", &document)
	x.Clock, _ = http.ParseTime(header.Get("Date")) // zero if there is no date
	if err != nil {
		return x, "check oidc.issuer, the network and the issuer: nobody can sign in until the issuer answers", err
	}
	if document.Issuer != i.config.Issuer {
		return x, "set oidc.issuer to exactly the name that the issuer publishes", fmt.Errorf("the issuer at %s publishes the name %q", i.config.Issuer, document.Issuer)
	}
	k := &keys{url: document.KeysURL, client: i.client, limit: i.limit}
	if err := k.fetch(ctx); err != nil {
		return x, "make the issuer's keys readable for this server: until then it cannot check tokens", fmt.Errorf("the issuer's keys cannot be read: %w", err)
	}
	x.KeyCount = len(k.current)
	for _, scope := range i.config.Scopes {
		if len(document.Scopes) > 0 && !slices.Contains(document.Scopes, scope) {
			x.MissingScopes = append(x.MissingScopes, scope)
		}
	}
	return x, "", nil
}
