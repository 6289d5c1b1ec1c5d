package sandbox

import "golang.org/x/sys/unix"

const (
	auditArch = unix.AUDIT_ARCH_X86_64
	// foreignCalls is where the numbers of x32 begin: the same kernel functions, which rules by number would miss.
	foreignCalls = 0x40000000
)

// oldModes are calls that set the mode of a file and that newer architectures do not have.
var oldModes = []rule{
	{number: unix.SYS_CHMOD, when: []condition{hasAny(1, setID)}},
	{number: unix.SYS_CREAT, when: []condition{hasAny(1, setID)}},
	{number: unix.SYS_OPEN, when: []condition{hasAny(1, creates), hasAny(2, setID)}},
	{number: unix.SYS_MKNOD, when: []condition{hasAny(1, setID)}},
}

// oldAdministration are calls of administrators that newer architectures do not have.
var oldAdministration = []uintptr{unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_MODIFY_LDT, unix.SYS_USELIB}
