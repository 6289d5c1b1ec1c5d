package sandbox

import "golang.org/x/sys/unix"

const (
	auditArch        = unix.AUDIT_ARCH_AARCH64
	firstForeignCall = 0 // this architecture has no other ABI
)

var (
	legacyModeRules  []rule
	legacyAdminCalls []uintptr
)
