package sandbox

import "golang.org/x/sys/unix"

const (
	auditArch = unix.AUDIT_ARCH_X86_64
	// firstForeignCall is the first number of the x32 ABI. This ABI has the same kernel functions under other numbers,
	// which the rules would not match.
	firstForeignCall = 0x40000000
)

// legacyModeRules matches calls that set the mode of a file and do not exist on newer architectures.
var legacyModeRules = []rule{
	{number: unix.SYS_CHMOD, when: []condition{hasAny(1, setID)}},
	{number: unix.SYS_CREAT, when: []condition{hasAny(1, setID)}},
	{number: unix.SYS_OPEN, when: []condition{hasAny(1, createFlags), hasAny(2, setID)}},
	{number: unix.SYS_MKNOD, when: []condition{hasAny(1, setID)}},
}

// legacyAdminCalls lists administrative calls that do not exist on newer architectures.
var legacyAdminCalls = []uintptr{unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_MODIFY_LDT, unix.SYS_USELIB}
