package sandbox

import "os"

// programOverride is the path of the program that acts as the helper and supervises runs. If it is empty, this executable does
// both. For the tests of `make race`, the linker sets it to a fleet-runner without the race detector. A test program with
// the race detector takes twenty times as long to start.
var programOverride string

// Executable returns the path of the program that supervises runs. Outside of tests, this is the calling executable.
func Executable() (string, error) {
	if programOverride != "" {
		return programOverride, nil
	}
	return os.Executable()
}

// helperPath returns the path of the program that acts as the helper. The link /proc/self/exe leads to this executable
// even if another file has replaced it at its path.
func helperPath() string {
	if programOverride != "" {
		return programOverride
	}
	return "/proc/self/exe"
}
