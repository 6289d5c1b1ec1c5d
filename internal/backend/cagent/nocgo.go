//go:build !cgo

package cagent

import "fleet/internal/fleet"

// Backend cannot be had without cgo, which the library's parsers need. The catalog can.
type Backend struct{ fleet.Backend }

// New returns BACKEND_UNAVAILABLE.
func New(Config) (*Backend, error) {
	return nil, fleet.Errorf(fleet.ReasonBackendUnavailable, "this program was built without cgo, which agents of cagent need: build it with CGO_ENABLED=1")
}
