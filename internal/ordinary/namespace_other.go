//go:build unix && !linux

package ordinary

import "testing"

// WithoutNamespaces returns false: this system has no namespaces.
func WithoutNamespaces(*testing.T) bool { return false }
