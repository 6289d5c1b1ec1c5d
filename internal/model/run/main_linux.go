//go:build cgo

package run

import "golang.org/x/sys/unix"

// makeUndumpable prevents other processes from reading this process's memory, environment and open files. The tools
// that this process starts run as the same user in the same sandbox. Without makeUndumpable, they could read its keys
// and write its output.
func makeUndumpable() error { return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) }
