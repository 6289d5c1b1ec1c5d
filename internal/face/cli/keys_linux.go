package cli

import "golang.org/x/sys/unix"

// These are the ioctl requests that get and set the modes of a terminal. setTermiosDropInput also drops input that was not read yet.
const getTermios, setTermios, setTermiosDropInput = unix.TCGETS, unix.TCSETS, unix.TCSETSF
