package sandbox

import "golang.org/x/sys/unix"

const (
	auditArch    = unix.AUDIT_ARCH_AARCH64
	foreignCalls = 0 // this architecture has no other ABI
)

var (
	oldModes          []rule
	oldAdministration []uintptr
)
