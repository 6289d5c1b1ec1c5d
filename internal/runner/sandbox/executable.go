package sandbox

import "os"

// linked is the path of the program that acts as the helper and supervises runs; empty: this executable. The linker sets it
// for the tests of `make race`, where it is fleet-runner without the race detector, because a test program with it takes
// twenty times as long to start.
var linked string

// Executable returns the path of the program that supervises runs: this executable.
func Executable() (string, error) {
	if linked != "" {
		return linked, nil
	}
	return os.Executable()
}

// helperPath returns the path of the program that acts as the helper. The link names this executable even if another file
// replaced it at its path.
func helperPath() string {
	if linked != "" {
		return linked
	}
	return "/proc/self/exe"
}
