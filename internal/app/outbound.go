package app

import (
	"net/http"

	"fleet/internal/fleet"
)

// outboundTransport is the transport of requests to other servers. Such a server may answer slowly, so the API call that makes
// the request releases its slot first.
type outboundTransport struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (o outboundTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	fleet.ReleaseSlot(r.Context())
	return o.RoundTripper.RoundTrip(r)
}

// CloseIdleConnections closes the idle connections of the transport. http.Client calls it.
func (o outboundTransport) CloseIdleConnections() {
	if t, ok := o.RoundTripper.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}
