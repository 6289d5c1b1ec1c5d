package acp

import "syscall"

// attributes make the program lead a group, and die with the client.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
