//go:build unix

package gitfiles

import "os"

// Files names files of a working tree.
type Files struct {
	Dir   string   `json:"dir"`
	Paths [][]byte `json:"paths"` // relative to Dir; need not be valid UTF-8
}

// Values that Sizes returns instead of a size.
const (
	NamedPipe int64 = -1 - iota
	Special         // a device or a socket
)

// Sizes returns the size of each file in bytes: 0 for a directory, a symbolic link, and a file that does not exist or cannot be
// examined. The error is always nil.
func Sizes(f Files) ([]int64, error) {
	sizes := make([]int64, len(f.Paths))
	for i, path := range f.Paths {
		info, err := os.Lstat(f.Dir + "/" + string(path))
		if err != nil {
			continue
		}
		switch mode := info.Mode(); {
		case mode.IsRegular():
			sizes[i] = info.Size()
		case mode.IsDir(), mode&os.ModeSymlink != 0:
		case mode&os.ModeNamedPipe != 0:
			sizes[i] = NamedPipe
		default:
			sizes[i] = Special
		}
	}
	return sizes, nil
}
