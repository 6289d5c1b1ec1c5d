//go:build !linux

package acp

import "syscall"

// attributes leave the program in the group of the run, by which the supervisor finds it where orphans are lost.
func attributes() *syscall.SysProcAttr { return nil }
