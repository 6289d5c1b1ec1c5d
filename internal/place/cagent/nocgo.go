//go:build !cgo

package cagent

import (
	"fmt"
	"os"

	"fleet/internal/fleet"
)

const needsCgo = "this program was built without cgo, which agents of cagent need: build it with CGO_ENABLED=1"

// Place cannot be had without cgo, which the library's parsers need. The catalog can.
type Place struct{ fleet.Place }

// New returns BACKEND_UNAVAILABLE.
func New(Config) (*Place, error) { return nil, fleet.Errorf(fleet.ReasonBackendUnavailable, needsCgo) }

// Main returns the exit code of a run that cannot be done.
func Main() int {
	fmt.Fprintln(os.Stderr, needsCgo)
	return 1
}
