//go:build !linux

package program

import "syscall"

// attributes returns nil, so that the program stays in the process group of the run. On systems that do not adopt
// orphans, the supervisor finds the program by this group.
func attributes() *syscall.SysProcAttr { return nil }
