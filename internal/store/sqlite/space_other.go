//go:build !linux

package sqlite

import "errors"

// allocate does nothing: there is no portable way to allocate space beyond a file's end.
func allocate(string, int64) {}

func freeOf(string) (free, total uint64, err error) { return 0, 0, errors.ErrUnsupported }
