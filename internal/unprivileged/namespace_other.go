//go:build unix && !linux

package unprivileged

import "testing"

// RerunWithoutNamespaces returns false, because no process of this system can create namespaces.
func RerunWithoutNamespaces(*testing.T) bool { return false }
