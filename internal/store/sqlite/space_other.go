//go:build !linux

package sqlite

import (
	"errors"
	"os"
)

// allocate does nothing: space beyond a file's end cannot be allocated portably.
func allocate(*os.File, int64) {}

func freeOf(string) (free, total uint64, err error) { return 0, 0, errors.ErrUnsupported }
