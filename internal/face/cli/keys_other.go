//go:build !linux

package cli

import "golang.org/x/sys/unix"

const getTermios, setTermios, setTermiosDropInput = unix.TIOCGETA, unix.TIOCSETA, unix.TIOCSETAF
