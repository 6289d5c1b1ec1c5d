package app

import (
	"net/http"

	"fleet/internal/fleet"
)

// outward is a transport for requests to other servers. The call that a request belongs to gives up its slot, because another
// server may take long to answer.
type outward struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (o outward) RoundTrip(r *http.Request) (*http.Response, error) {
	fleet.ReleaseSlot(r.Context())
	return o.RoundTripper.RoundTrip(r)
}

// CloseIdleConnections closes those of the transport, see http.Client.
func (o outward) CloseIdleConnections() {
	if t, ok := o.RoundTripper.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}
