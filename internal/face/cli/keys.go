package cli

import (
	"os"

	"golang.org/x/sys/unix"
)

// passSingleKeys makes the terminal pass on each key at once, without showing the key. Keys that were typed before and not read yet are
// dropped. Unlike raw mode, this does not change output and Ctrl-C. The function restore restores the earlier mode.
func passSingleKeys(t *os.File) (restore func(), err error) {
	fd := int(t.Fd())
	originalMode, err := unix.IoctlGetTermios(fd, getTermios)
	if err != nil {
		return nil, err
	}
	changedMode := *originalMode
	changedMode.Lflag &^= unix.ICANON | unix.ECHO
	changedMode.Cc[unix.VMIN], changedMode.Cc[unix.VTIME] = 1, 0
	if err := unix.IoctlSetTermios(fd, setTermiosDropInput, &changedMode); err != nil {
		return nil, err
	}
	return func() { _ = unix.IoctlSetTermios(fd, setTermios, originalMode) }, nil
}
