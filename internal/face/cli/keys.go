package cli

import (
	"os"

	"golang.org/x/sys/unix"
)

// readSingleKeys makes the terminal pass on each key at once, without showing it. Keys that were typed before are dropped. Unlike raw
// mode, this leaves output and Ctrl-C as they are. The function restore undoes it.
func readSingleKeys(t *os.File) (restore func(), err error) {
	fd := int(t.Fd())
	original, err := unix.IoctlGetTermios(fd, getTermios)
	if err != nil {
		return nil, err
	}
	changed := *original
	changed.Lflag &^= unix.ICANON | unix.ECHO
	changed.Cc[unix.VMIN], changed.Cc[unix.VTIME] = 1, 0
	if err := unix.IoctlSetTermios(fd, setTermiosDropInput, &changed); err != nil {
		return nil, err
	}
	return func() { _ = unix.IoctlSetTermios(fd, setTermios, original) }, nil
}
