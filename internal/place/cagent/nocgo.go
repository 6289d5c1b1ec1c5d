//go:build !cgo

package cagent

import (
	"fmt"
	"os"

	"fleet/internal/fleet"
)

// Lacks names the features that are missing from this build of the program.
const Lacks = "agents of cagent, because it was built without cgo"

const needsCgo = "this program was built without cgo, which agents of cagent need: build it with CGO_ENABLED=1"

// Place is not available in this build, because the library's parsers need cgo. The catalog does not need cgo.
type Place struct{ fleet.Place }

// New always returns BACKEND_UNAVAILABLE.
func New(Config) (*Place, error) { return nil, fleet.Errorf(fleet.ReasonBackendUnavailable, needsCgo) }

// Main prints that runs need cgo, and returns exit code 1.
func Main() int {
	fmt.Fprintln(os.Stderr, needsCgo)
	return 1
}
