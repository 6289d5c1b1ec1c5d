//go:build unix && !linux

package unprivileged

import "testing"

// RerunWithoutNamespaces returns false: this system has no namespaces.
func RerunWithoutNamespaces(*testing.T) bool { return false }
