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
	answerAllow = uint32(unix.SECCOMP_RET_ALLOW)
	answerKill  = uint32(unix.SECCOMP_RET_KILL_PROCESS)
)

func refuse(e syscall.Errno) uint32 { return uint32(unix.SECCOMP_RET_ERRNO) | uint32(e) }

// rule sets the result of a system call whose arguments meet all conditions.
type rule struct {
	number uintptr
	when   []condition
	answer uint32
}

// condition is met if the lower 32 bits of an argument have one of the bits of any, or are equal to is. With whole set,
// it is met if any of the argument's 64 bits is set.
type condition struct {
	arg   uint32
	any   uint32
	equal uint32
	whole bool
}

func hasAny(arg, bits uint32) condition { return condition{arg: arg, any: bits} }
func equals(arg, v uint32) condition    { return condition{arg: arg, equal: v} }
func notZero(arg uint32) condition      { return condition{arg: arg, whole: true} }

// namespaces are the flags of clone that create namespaces.
const namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER |
	unix.CLONE_NEWPID | unix.CLONE_NEWNET

const (
	setID     = unix.S_ISUID | unix.S_ISGID
	creates   = unix.O_CREAT | unix.O_TMPFILE&^unix.O_DIRECTORY
	sysFchmod = 452 // fchmodat2, on every architecture
)

// rules returns the rules for system calls that are refused. The first matching rule counts.
func rules(n Network) []rule {
	var all []rule
	never := func(e syscall.Errno, numbers ...uintptr) {
		for _, nr := range numbers {
			all = append(all, rule{number: nr, answer: refuse(e)})
		}
	}
	when := func(e syscall.Errno, nr uintptr, c ...condition) {
		all = append(all, rule{number: nr, when: c, answer: refuse(e)})
	}

	// Sockets: Landlock restricts neither Unix sockets with a path, nor UDP.
	families := []condition{equals(0, unix.AF_INET), equals(0, unix.AF_INET6)}
	if n == Offline {
		families = nil
	}
	for _, c := range families {
		all = append(all, rule{unix.SYS_SOCKET, []condition{c}, answerAllow})
	}
	all = append(all, rule{unix.SYS_SOCKET, []condition{equals(0, unix.AF_NETLINK), equals(2, unix.NETLINK_ROUTE)}, answerAllow})
	never(unix.EACCES, unix.SYS_SOCKET)

	// Calls that affect other processes of the user. Landlock restricts only signals and ptrace.
	when(unix.EPERM, unix.SYS_PRLIMIT64, notZero(0), notZero(2))
	when(unix.EPERM, unix.SYS_SETPRIORITY, notZero(1))
	when(unix.EPERM, unix.SYS_SETPRIORITY, equals(0, unix.PRIO_USER))
	when(unix.EPERM, unix.SYS_IOPRIO_SET, notZero(1))
	when(unix.EPERM, unix.SYS_IOPRIO_SET, equals(0, 3)) // IOPRIO_WHO_USER
	for _, nr := range []uintptr{unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_SETATTR, unix.SYS_SCHED_SETAFFINITY} {
		when(unix.EPERM, nr, notZero(0))
	}
	never(unix.EPERM, unix.SYS_ADD_KEY, unix.SYS_KEYCTL, unix.SYS_REQUEST_KEY)

	// io_uring would bypass this filter, which does not see its operations.
	never(unix.ENOSYS, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER)

	// A new namespace gives back capabilities. The filter cannot read the arguments of clone3; libraries then use
	// clone.
	when(unix.EPERM, unix.SYS_CLONE, hasAny(0, namespaces))
	never(unix.ENOSYS, unix.SYS_CLONE3)
	never(unix.EPERM, unix.SYS_UNSHARE, unix.SYS_SETNS)

	// Set-uid programs: any user could run them as the agents' user.
	when(unix.EPERM, unix.SYS_FCHMOD, hasAny(1, setID))
	when(unix.EPERM, unix.SYS_FCHMODAT, hasAny(2, setID))
	when(unix.EPERM, sysFchmod, hasAny(2, setID))
	when(unix.EPERM, unix.SYS_OPENAT, hasAny(2, creates), hasAny(3, setID))
	when(unix.EPERM, unix.SYS_MKNODAT, hasAny(2, setID))
	never(unix.ENOSYS, unix.SYS_OPENAT2) // the filter cannot read its mode
	for _, c := range oldModes {
		when(unix.EPERM, c.number, c.when...)
	}

	// Input inserted into a terminal counts as its user's input.
	when(unix.EPERM, unix.SYS_IOCTL, equals(1, unix.TIOCSTI))
	when(unix.EPERM, unix.SYS_IOCTL, equals(1, unix.TIOCLINUX))

	// Administrative calls. Without capabilities the kernel refuses most of them; the filter also protects against bugs
	// in their code.
	never(
		unix.EPERM, unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE,
		unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR, unix.SYS_BPF,
		unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD,
		unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_REBOOT, unix.SYS_SWAPON, unix.SYS_SWAPOFF,
		unix.SYS_ACCT, unix.SYS_QUOTACTL, unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_CLOCK_ADJTIME, unix.SYS_ADJTIMEX,
		unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME, unix.SYS_SYSLOG, unix.SYS_VHANGUP, unix.SYS_FANOTIFY_INIT,
	)
	never(unix.EPERM, oldAdministration...)
	return all
}

// assemble compiles the rules to a BPF program. Other calls are allowed.
func assemble(all []rule) []unix.SockFilter {
	statement := func(code uint16, k uint32) unix.SockFilter { return unix.SockFilter{Code: code, K: k} }
	jump := func(code uint16, k uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: code, Jt: yes, Jf: no, K: k}
	}
	const (
		load  = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equal = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		least = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
		bits  = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
		give  = unix.BPF_RET | unix.BPF_K
	)
	program := []unix.SockFilter{
		statement(load, dataArch), jump(equal, auditArch, 1, 0), statement(give, answerKill),
	}
	if foreignCalls > 0 { // numbers of another architecture
		program = append(program, statement(load, dataNumber), jump(least, foreignCalls, 0, 1), statement(give, answerKill))
	}
	for _, r := range all {
		var body []unix.SockFilter // jumps past the rule have 255 in Jf until its length is known
		for _, c := range r.when {
			low, high := dataArgs+8*c.arg, dataArgs+8*c.arg+4 // both architectures are little-endian
			switch {
			case c.whole:
				body = append(body, statement(load, high), jump(bits, math.MaxUint32, 2, 0), statement(load, low), jump(bits, math.MaxUint32, 0, past))
			case c.any != 0:
				body = append(body, statement(load, low), jump(bits, c.any, 0, past))
			default:
				body = append(body, statement(load, low), jump(equal, c.equal, 0, past))
			}
		}
		body = append(body, statement(give, r.answer))
		for i := range body {
			if body[i].Jf == past {
				body[i].Jf = uint8(len(body) - i - 1)
			}
		}
		program = append(program, statement(load, dataNumber), jump(equal, uint32(r.number), 0, uint8(len(body))))
		program = append(program, body...)
	}
	return append(program, statement(give, answerAllow))
}

const past = math.MaxUint8

// filterCalls permanently applies the rules to the thread.
func filterCalls(p Policy) error {
	program := assemble(rules(p.Network))
	f := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&f)), 0, 0)
}
