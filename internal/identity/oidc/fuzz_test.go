package oidc

import (
	"bytes"
	"crypto"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/identity/oidc/oidctest"
)

// FuzzToken checks that a text is accepted as a token only if the issuer has signed it.
func FuzzToken(f *testing.F) {
	testIssuer := oidctest.New(f, alice)
	i := newIssuer(f, testIssuer, nil)
	valid := testIssuer.SignedToken(f, nil)
	f.Add(valid[:len(valid)-8])
	f.Add("eyJhbGciOiJub25lIn0." + strings.Split(valid, ".")[1] + ".")
	f.Add("..")
	f.Add("")
	f.Fuzz(func(t *testing.T, token string) {
		_ = i.Recognizes(token)
		if strings.TrimSpace(token) == valid {
			t.Skip()
		}
		_, err := i.Authenticate(t.Context(), token)
		require.Contains(t, []fleet.Reason{fleet.ReasonUnauthenticated, fleet.ReasonPermissionDenied}, fleet.ReasonOf(err), "%v", err)
	})
}

// FuzzClaims checks that signed claims of any form either give a principal with a name and an expiry, or are refused.
func FuzzClaims(f *testing.F) {
	for _, claims := range []string{
		`{}`, `{"aud":["x"],"exp":1}`, `{"groups":"dev"}`, `{"groups":[1,null]}`, `{"preferred_username":7,"email":"a@b"}`, `{"exp":1e99}`, `{"nbf":"x"}`, `{"sub":"","iss":null}`,
	} {
		f.Add([]byte(claims))
	}
	testIssuer := oidctest.New(f, alice)
	i := newIssuer(f, testIssuer, nil)
	f.Fuzz(func(t *testing.T, claims []byte) {
		var given map[string]any
		if json.Unmarshal(claims, &given) != nil {
			t.Skip()
		}
		p, err := i.Authenticate(t.Context(), testIssuer.SignedToken(t, func(all map[string]any) { maps.Copy(all, given) }))
		if err != nil {
			require.Contains(t, []fleet.Reason{fleet.ReasonUnauthenticated, fleet.ReasonPermissionDenied}, fleet.ReasonOf(err), "%v", err)
			return
		}
		require.NotEmpty(t, strings.TrimSpace(p.Name))
		require.Equal(t, fleet.ScopeRun, p.Scope)
		require.True(t, p.ExpiresAt.After(time.Now()))
		for _, g := range p.Groups {
			require.True(t, strings.HasPrefix(g, "oidc:") && g != "oidc:", g)
		}
	})
}

// documents is a transport that answers with fixed documents of an issuer.
type documents struct{ discovery, keys []byte }

func (d documents) RoundTrip(r *http.Request) (*http.Response, error) {
	body := d.keys
	if strings.HasSuffix(r.URL.Path, "/.well-known/openid-configuration") {
		body = d.discovery
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body)), Request: r}, nil
}

// FuzzDocuments checks that a token is accepted only if a published key has signed it, whatever the issuer publishes.
func FuzzDocuments(f *testing.F) {
	testIssuer := oidctest.New(f, alice)
	token := testIssuer.SignedToken(f, nil)
	i := newIssuer(f, testIssuer, nil)
	_, err := i.Authenticate(f.Context(), token)
	require.NoError(f, err)
	issuerKeys := i.metadata.keys.current
	discovery := `{"issuer":"` + testIssuer.URL + `","jwks_uri":"` + testIssuer.URL + `/keys","scopes_supported":["openid"]}`
	set, err := json.Marshal(map[string]any{"keys": issuerKeys})
	require.NoError(f, err)
	f.Add([]byte(discovery), set)
	f.Add([]byte(discovery), []byte(`{"keys":[null,1,{},{"kty":"oct","k":"AA"},{"kty":"RSA","n":"AQ","e":"AQAB"},{"kty":"EC","crv":"P-256","x":"","y":""},{"kty":"OKP","crv":"Ed25519","x":"AA"}]}`))
	f.Add([]byte(`{"issuer":"`+testIssuer.URL+`","jwks_uri":":"}`), []byte(`{"keys":7}`))
	f.Add([]byte(`{"issuer":"`+testIssuer.URL+`","jwks_uri":1,"id_token_signing_alg_values_supported":["none","HS256"]}`), []byte(`[]`))
	f.Add([]byte(`{"issuer":"http://other"}`), []byte(``))
	f.Fuzz(func(t *testing.T, discovery, keys []byte) {
		i := newIssuer(t, testIssuer, nil)
		i.client = &http.Client{Transport: documents{discovery, keys}}
		_, err := i.Authenticate(t.Context(), token)
		if err != nil {
			require.Contains(t, []fleet.Reason{fleet.ReasonUnauthenticated, fleet.ReasonBackendUnavailable}, fleet.ReasonOf(err), "%v", err)
			return
		}
		require.True(t, slices.ContainsFunc(i.metadata.keys.current, func(k jose.JSONWebKey) bool {
			a, _ := k.Thumbprint(crypto.SHA256)
			b, _ := issuerKeys[0].Thumbprint(crypto.SHA256)
			return bytes.Equal(a, b)
		}))
	})
}
