//go:build !cgo

package cagent

import "fleet/internal/fleet"

// Place cannot be had without cgo, which the library's parsers need. The catalog can.
type Place struct{ fleet.Place }

// New returns BACKEND_UNAVAILABLE.
func New(Config) (*Place, error) {
	return nil, fleet.Errorf(fleet.ReasonBackendUnavailable, "this program was built without cgo, which agents of cagent need: build it with CGO_ENABLED=1")
}
