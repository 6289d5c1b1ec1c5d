//go:build !cgo

package cagent

import (
	"fmt"
	"os"

	"fleet/internal/fleet"
)

// Lacks says what this program cannot do because of how it was built.
const Lacks = "agents of cagent, because it was built without cgo"

const needsCgo = "this program was built without cgo, which agents of cagent need: build it with CGO_ENABLED=1"

// Place needs cgo, because the library's parsers do. The catalog does not.
type Place struct{ fleet.Place }

// New returns BACKEND_UNAVAILABLE.
func New(Config) (*Place, error) { return nil, fleet.Errorf(fleet.ReasonBackendUnavailable, needsCgo) }

// Main returns an error exit code, because runs need cgo.
func Main() int {
	fmt.Fprintln(os.Stderr, needsCgo)
	return 1
}
