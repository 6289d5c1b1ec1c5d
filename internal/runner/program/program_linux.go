package program

import "syscall"

// attributes returns attributes for a program that leads a process group and dies with the client.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
