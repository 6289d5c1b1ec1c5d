//go:build unix && !linux

package process

import "syscall"

// Separate does nothing: this system has no pid namespaces.
func Separate(*syscall.SysProcAttr) {}

// Tag does nothing on this system.
func Tag(string) error { return nil }

// Inseparable returns false, because Separate does nothing.
func Inseparable(error) bool { return false }

// Enter returns false: this system has no pid namespaces.
func Enter() (outside ID, separate bool, err error) { return ID{}, false, nil }
