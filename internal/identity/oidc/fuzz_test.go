package oidc

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/identity/oidc/oidctest"
)

// FuzzToken checks that no text is accepted as a token that the issuer has not signed.
func FuzzToken(f *testing.F) {
	real := oidctest.New(f, alice)
	i := issuer(f, real, nil)
	valid := real.Forge(f, nil)
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

// FuzzClaims checks that claims of any form, which the issuer has signed, make a principal with a name and an end, or are refused.
func FuzzClaims(f *testing.F) {
	for _, claims := range []string{
		`{}`, `{"aud":["x"],"exp":1}`, `{"groups":"dev"}`, `{"groups":[1,null]}`, `{"preferred_username":7,"email":"a@b"}`, `{"exp":1e99}`, `{"nbf":"x"}`, `{"sub":"","iss":null}`,
	} {
		f.Add([]byte(claims))
	}
	real := oidctest.New(f, alice)
	i := issuer(f, real, nil)
	f.Fuzz(func(t *testing.T, claims []byte) {
		var given map[string]any
		if json.Unmarshal(claims, &given) != nil {
			t.Skip()
		}
		p, err := i.Authenticate(t.Context(), real.Forge(t, func(all map[string]any) { maps.Copy(all, given) }))
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
