//go:build !linux

package acp

import "syscall"

// attributes returns nil: the program stays in the process group of the run, by which the supervisor finds it on
// systems that do not adopt orphans.
func attributes() *syscall.SysProcAttr { return nil }
