//go:build amd64 || arm64

package sandbox

import (
	"fmt"
	"os"
	"runtime"
)

// The helper begins while packages are initialised, and before most of those of the server: starting all of them takes
// several times as long as everything that the helper does. docs/decisions/022 has the figures.
var _ = func() bool {
	if len(os.Args) == 0 || os.Args[0] != helperName {
		return false
	}
	runtime.LockOSThread() // what follows holds for one thread, which becomes the program
	if err := helper(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(127)
	return true
}()
