//go:build amd64 || arm64

package sandbox

import (
	"math"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Offsets of the fields of seccomp_data, in bytes.
const (
	dataNumber = 0
	dataArch   = 4
	dataArgs   = 16
)

// Results of a filter.
const (
	resultAllow = uint32(unix.SECCOMP_RET_ALLOW)
	resultKill  = uint32(unix.SECCOMP_RET_KILL_PROCESS)
)

func errnoResult(e syscall.Errno) uint32 { return uint32(unix.SECCOMP_RET_ERRNO) | uint32(e) }

// rule sets the filter's result for a system call whose arguments meet all conditions.
type rule struct {
	number uintptr
	when   []condition
	result uint32
}

// condition is a condition for the argument with the index arg. If nonZero is set, at least one of the argument's 64 bits
// must be set. Otherwise, if anyOf is not 0, the argument's lower 32 bits must include one of the bits of anyOf. Otherwise the
// lower 32 bits, without the bits of ignored, must be equal to equal.
type condition struct {
	arg     uint32
	anyOf   uint32
	equal   uint32
	ignored uint32
	nonZero bool
}

func hasAny(arg, bits uint32) condition { return condition{arg: arg, anyOf: bits} }
func equals(arg, v uint32) condition    { return condition{arg: arg, equal: v} }
func notZero(arg uint32) condition      { return condition{arg: arg, nonZero: true} }

// socketType matches a type of sockets with any flags.
func socketType(arg, v uint32) condition {
	return condition{arg: arg, equal: v, ignored: unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK}
}

// namespaces are the flags of clone that create namespaces.
const namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER |
	unix.CLONE_NEWPID | unix.CLONE_NEWNET

const (
	setID       = unix.S_ISUID | unix.S_ISGID
	createFlags = unix.O_CREAT | unix.O_TMPFILE&^unix.O_DIRECTORY

	// Numbers of system calls that are the same on every architecture.
	sysFchmodat2     = 452
	sysSetxattrat    = 463
	sysRemovexattrat = 466
	sysOpenTreeAttr  = 467
	sysFileSetattr   = 469

	fsSetXattr = 0x401c5820 // FS_IOC_FSSETXATTR
)

// filterRules returns the rules of the filter. The first matching rule counts. A call that no rule matches is allowed.
func filterRules(n Network) []rule {
	var all []rule
	allow := func(nr uintptr, c ...condition) { all = append(all, rule{nr, c, resultAllow}) }
	deny := func(e syscall.Errno, nr uintptr, c ...condition) { all = append(all, rule{nr, c, errnoResult(e)}) }
	denyAll := func(e syscall.Errno, numbers ...uintptr) {
		for _, nr := range numbers {
			deny(e, nr)
		}
	}

	// Sockets: Landlock restricts neither Unix sockets with a path, nor UDP.
	if n != Offline {
		allow(unix.SYS_SOCKET, equals(0, unix.AF_INET))
		allow(unix.SYS_SOCKET, equals(0, unix.AF_INET6))
	}
	allow(unix.SYS_SOCKET, equals(0, unix.AF_NETLINK), equals(2, unix.NETLINK_ROUTE))
	denyAll(unix.EACCES, unix.SYS_SOCKET)
	// Only pairs of streams are allowed: a socket of a datagram pair can send data and descriptors to every socket with a path.
	for _, kind := range []uint32{unix.SOCK_STREAM, unix.SOCK_SEQPACKET} {
		allow(unix.SYS_SOCKETPAIR, equals(0, unix.AF_UNIX), socketType(1, kind))
	}
	denyAll(unix.EACCES, unix.SYS_SOCKETPAIR)

	// Calls that affect other processes of the user. Landlock restricts only signals and ptrace.
	deny(unix.EPERM, unix.SYS_PRLIMIT64, notZero(0), notZero(2))
	// Changes of the limit by which the supervisor recognises the processes of a run: see process.Tag.
	deny(unix.EPERM, unix.SYS_PRLIMIT64, equals(1, unix.RLIMIT_RTTIME), notZero(2))
	deny(unix.EPERM, unix.SYS_SETRLIMIT, equals(0, unix.RLIMIT_RTTIME))
	deny(unix.EPERM, unix.SYS_SETPRIORITY, notZero(1))
	deny(unix.EPERM, unix.SYS_SETPRIORITY, equals(0, unix.PRIO_USER))
	deny(unix.EPERM, unix.SYS_IOPRIO_SET, notZero(1))
	deny(unix.EPERM, unix.SYS_IOPRIO_SET, equals(0, 3)) // IOPRIO_WHO_USER
	for _, nr := range []uintptr{unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_SETATTR, unix.SYS_SCHED_SETAFFINITY} {
		deny(unix.EPERM, nr, notZero(0))
	}
	denyAll(unix.EPERM, unix.SYS_ADD_KEY, unix.SYS_KEYCTL, unix.SYS_REQUEST_KEY)

	// io_uring would bypass this filter, because the filter does not see its operations.
	denyAll(unix.ENOSYS, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER)

	// In a new namespace, a process regains capabilities. The filter cannot read the arguments of clone3, so it reports
	// that the kernel does not have clone3. Libraries then use clone.
	deny(unix.EPERM, unix.SYS_CLONE, hasAny(0, namespaces))
	denyAll(unix.ENOSYS, unix.SYS_CLONE3)
	denyAll(unix.EPERM, unix.SYS_UNSHARE, unix.SYS_SETNS)

	// Set-uid programs. Any user could run a set-uid program of an agent with the rights of the agents' user.
	deny(unix.EPERM, unix.SYS_FCHMOD, hasAny(1, setID))
	deny(unix.EPERM, unix.SYS_FCHMODAT, hasAny(2, setID))
	deny(unix.EPERM, sysFchmodat2, hasAny(2, setID))
	deny(unix.EPERM, unix.SYS_OPENAT, hasAny(2, createFlags), hasAny(3, setID))
	deny(unix.EPERM, unix.SYS_MKNODAT, hasAny(2, setID))
	denyAll(unix.ENOSYS, unix.SYS_OPENAT2) // the filter cannot read the mode in its arguments
	for _, c := range legacyModeRules {
		deny(unix.EPERM, c.number, c.when...)
	}

	// Extended attributes. Landlock does not restrict changes of them. Programs can handle EOPNOTSUPP, because some file
	// systems have no extended attributes.
	denyAll(
		unix.EOPNOTSUPP, unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR, sysSetxattrat, unix.SYS_REMOVEXATTR,
		unix.SYS_LREMOVEXATTR, unix.SYS_FREMOVEXATTR, sysRemovexattrat,
	)

	// Flags, keys and seals of files. Landlock does not restrict changes of them, and for most, read access to the file suffices.
	denyAll(unix.EOPNOTSUPP, sysFileSetattr)
	for _, request := range []uint32{unix.FS_IOC_SETFLAGS, fsSetXattr, unix.FS_IOC_ENABLE_VERITY, unix.FS_IOC_SET_ENCRYPTION_POLICY, unix.FS_IOC_ADD_ENCRYPTION_KEY} {
		deny(unix.ENOTTY, unix.SYS_IOCTL, equals(1, request))
	}

	// Calls that insert input into a terminal. Other programs would take it for input of the terminal's user.
	deny(unix.EPERM, unix.SYS_IOCTL, equals(1, unix.TIOCSTI))
	deny(unix.EPERM, unix.SYS_IOCTL, equals(1, unix.TIOCLINUX))

	// Administrative calls. Without capabilities, the kernel refuses most of these calls. The filter also protects
	// against bugs in the kernel's code for them.
	denyAll(
		unix.EPERM, unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE,
		unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR, sysOpenTreeAttr, unix.SYS_QUOTACTL_FD, unix.SYS_BPF,
		unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD,
		unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_REBOOT, unix.SYS_SWAPON, unix.SYS_SWAPOFF,
		unix.SYS_ACCT, unix.SYS_QUOTACTL, unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_CLOCK_ADJTIME, unix.SYS_ADJTIMEX,
		unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME, unix.SYS_SYSLOG, unix.SYS_VHANGUP, unix.SYS_FANOTIFY_INIT,
	)
	denyAll(unix.EPERM, legacyAdminCalls...)
	return all
}

// assemble compiles the rules to a BPF program. The program allows a call that no rule matches. It kills a process that makes a
// call of another architecture or ABI, because the rules do not have the numbers of these calls.
func assemble(all []rule) []unix.SockFilter {
	statement := func(code uint16, k uint32) unix.SockFilter { return unix.SockFilter{Code: code, K: k} }
	jump := func(code uint16, k uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: code, Jt: yes, Jf: no, K: k}
	}
	const (
		load    = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equal   = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		atLeast = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
		bits    = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
		mask    = unix.BPF_ALU | unix.BPF_AND | unix.BPF_K
		ret     = unix.BPF_RET | unix.BPF_K
	)
	program := []unix.SockFilter{
		statement(load, dataArch), jump(equal, auditArch, 1, 0), statement(ret, resultKill),
	}
	if firstForeignCall > 0 { // calls of another ABI
		program = append(program, statement(load, dataNumber), jump(atLeast, firstForeignCall, 0, 1), statement(ret, resultKill))
	}
	for _, r := range all {
		var body []unix.SockFilter // jumps past the rule have the value pastEnd in Jf until the rule's length is known
		for _, c := range r.when {
			low, high := dataArgs+8*c.arg, dataArgs+8*c.arg+4 // both architectures are little-endian
			switch {
			case c.nonZero:
				body = append(body, statement(load, high), jump(bits, math.MaxUint32, 2, 0), statement(load, low), jump(bits, math.MaxUint32, 0, pastEnd))
			case c.anyOf != 0:
				body = append(body, statement(load, low), jump(bits, c.anyOf, 0, pastEnd))
			case c.ignored != 0:
				body = append(body, statement(load, low), statement(mask, ^c.ignored), jump(equal, c.equal, 0, pastEnd))
			default:
				body = append(body, statement(load, low), jump(equal, c.equal, 0, pastEnd))
			}
		}
		body = append(body, statement(ret, r.result))
		for i := range body {
			if body[i].Jf == pastEnd {
				body[i].Jf = uint8(len(body) - i - 1)
			}
		}
		program = append(program, statement(load, dataNumber), jump(equal, uint32(r.number), 0, uint8(len(body))))
		program = append(program, body...)
	}
	return append(program, statement(ret, resultAllow))
}

// pastEnd marks a jump past the end of a rule while assemble builds the rule.
const pastEnd = math.MaxUint8

// filterSystemCalls permanently applies the rules of the policy to the current thread.
func filterSystemCalls(p Policy) error {
	program := assemble(filterRules(p.Network))
	f := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&f)), 0, 0)
}
