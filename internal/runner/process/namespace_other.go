//go:build unix && !linux

package process

import "syscall"

// AddNamespace does nothing: this system has no pid namespaces.
func AddNamespace(*syscall.SysProcAttr) {}

// IsNamespaceError returns false, because AddNamespace does nothing.
func IsNamespaceError(error) bool { return false }

// EnterNamespace returns false: this system has no pid namespaces.
func EnterNamespace() (outerID ID, separate bool, err error) { return ID{}, false, nil }
