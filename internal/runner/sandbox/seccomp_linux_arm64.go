package sandbox

import "golang.org/x/sys/unix"

const (
	auditArch    = unix.AUDIT_ARCH_AARCH64
	foreignCalls = 0 // there are none
)

var (
	oldModes          []rule
	oldAdministration []uintptr
)
