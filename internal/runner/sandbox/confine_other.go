//go:build !linux || !(amd64 || arm64)

package sandbox

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
)

// Available returns an error that wraps ErrUnavailable.
func Available() error {
	return fmt.Errorf("%w: %s on %s is not supported: use Linux on amd64 or arm64", ErrUnavailable, runtime.GOOS, runtime.GOARCH)
}

// OpenRoot is like os.OpenRoot, but returns an error if the path contains symbolic links.
func OpenRoot(dir string) (*os.Root, error) {
	return openChecked(dir)
}

func confine(Policy) error { return Available() }

func checkNetworkNamespace() error { return Available() }

func addNetworkNamespace(*os.ProcAttr) {}

func endWithThread(*exec.Cmd) {}

func startProxy([]string, *os.ProcAttr) (*os.File, error) { return nil, Available() }

func connectProxy(Policy, int) error { return Available() }
