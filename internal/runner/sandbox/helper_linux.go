//go:build amd64 || arm64

package sandbox

import (
	"fmt"
	"os"
	"runtime"
)

// The helper is this executable under the name helperName. It restricts itself and then executes the sandboxed program.
// It runs during package initialisation, before most packages of the server are initialised. Initialising all of them
// takes several times as long as the helper's work: see docs/decisions/022.
var _ = func() bool {
	if len(os.Args) == 0 || os.Args[0] != helperName {
		return false
	}
	runtime.LockOSThread() // the restrictions apply to one thread, which becomes the program
	if err := helperMain(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(127)
	}
	os.Exit(0)
	return true
}()
