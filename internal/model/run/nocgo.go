//go:build !cgo

package run

import (
	"fmt"
	"os"
)

// MissingFeatures names the features that are missing from this build of the program.
const MissingFeatures = "agents of cagent, because it was built without cgo"

// Main prints that runs need cgo, and returns exit code 1.
func Main() int {
	fmt.Fprintln(os.Stderr, "this program was built without cgo, which agents of cagent need: build it with CGO_ENABLED=1")
	return 1
}
