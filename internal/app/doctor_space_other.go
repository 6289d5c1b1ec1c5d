//go:build !linux && !darwin

package app

import "errors"

// freeSpace returns errors.ErrUnsupported: it cannot find out the free disk space on this system.
func freeSpace(string) (uint64, error) { return 0, errors.ErrUnsupported }
