package coder_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/identity/coder"
)

// fixedResponses answers every request with the status. The answer to a request for groups has the body groups.
type fixedResponses struct {
	status       int
	body, groups []byte
}

// RoundTrip implements http.RoundTripper.
func (r fixedResponses) RoundTrip(request *http.Request) (*http.Response, error) {
	if strings.HasSuffix(request.URL.Path, "/groups") {
		r.body = r.groups
	}
	return &http.Response{
		StatusCode: r.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(bytes.NewReader(r.body)), ContentLength: int64(len(r.body)), Request: request,
	}, nil
}

// FuzzWhois checks that every answer of Coder leads either to a principal with the name and the scope of a Coder user, or to an error
// without the secret.
func FuzzWhois(f *testing.F) {
	f.Add(200, []byte(`{"id":"00000000-0000-0000-0000-000000000001","username":"alice","status":"active","roles":[{"name":"owner"}],
		"user_id":"00000000-0000-0000-0000-000000000001","scope":"all","expires_at":"2030-01-01T00:00:00Z"}`), []byte(`[{"name":"ops","organization_name":"acme"}]`))
	f.Add(401, []byte(`{"message":"no"}`), []byte(`[]`))
	f.Add(200, []byte(`[]`), []byte(`{}`))
	f.Fuzz(func(t *testing.T, status int, body, groups []byte) {
		if status < 200 || status > 599 {
			t.Skip()
		}
		u, err := coder.New(coder.Config{URL: "https://coder.example.com"}, fakeRecordSubject, coder.Options{Transport: fixedResponses{status, body, groups}})
		require.NoError(t, err)
		defer u.Close()
		p, err := u.Authenticate(t.Context(), alicesToken)
		if err != nil {
			require.NotContains(t, err.Error(), alicesToken[11:])
			require.NotEqual(t, fleet.ReasonInternal, fleet.ReasonOf(err), "%v", err)
			return
		}
		require.Equal(t, http.StatusOK, status)
		require.Contains(t, p.Name, "coder:")
		require.Contains(t, []fleet.Scope{fleet.ScopeRun, fleet.ScopeAdmin}, p.Scope)
		for _, g := range p.Groups {
			require.Contains(t, g, "coder:")
		}
	})
}
