package cli

import "golang.org/x/sys/unix"

const getTermios, setTermios, setTermiosDropInput = unix.TCGETS, unix.TCSETS, unix.TCSETSF
