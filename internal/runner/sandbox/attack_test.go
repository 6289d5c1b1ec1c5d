//go:build linux && (amd64 || arm64)

package sandbox_test

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	_ "fleet/internal/runner/proxy"
	"fleet/internal/runner/sandbox"
	"fleet/internal/waittest"
)

// TestMain lets the test binary also act as the attacker.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "attack" {
		err := attack(os.Args[2], os.Args[3:])
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// attack makes one attack. It returns nil if the attack succeeded, and otherwise an error that says why it failed.
func attack(name string, args []string) error {
	numberArg := func(i int) uintptr {
		n, err := strconv.Atoi(args[i])
		if err != nil {
			panic(err)
		}
		return uintptr(n)
	}
	rawSyscall := func(nr uintptr, args ...uintptr) error {
		args = append(args, 0, 0, 0, 0, 0, 0)
		if _, _, e := syscall.RawSyscall6(nr, args[0], args[1], args[2], args[3], args[4], args[5]); e != 0 {
			return e
		}
		return nil
	}
	switch name {
	case "read":
		_, err := os.ReadFile(args[0])
		return err
	case "list":
		_, err := os.ReadDir(args[0])
		return err
	case "append": // changes an existing file
		f, err := os.OpenFile(args[0], os.O_APPEND|os.O_WRONLY, 0)
		if err == nil {
			_, err = f.WriteString("attacked\n")
		}
		return err
	case "create":
		return os.WriteFile(args[0], nil, 0o600)
	case "remove":
		return os.Remove(args[0])
	case "replace": // replaces another user's file by the attacker's own
		if err := os.WriteFile("mine", []byte("attacked"), 0o600); err != nil {
			return fmt.Errorf("prepare: %w", err)
		}
		return os.Rename("mine", args[0])
	case "link": // creates a hard link to another user's file
		return os.Link(args[0], "linked")
	case "symlink": // opens a file through its own symbolic link
		_ = os.Remove("link")
		if err := os.Symlink(args[0], "link"); err != nil {
			return fmt.Errorf("prepare: %w", err)
		}
		_, err := os.ReadFile("link")
		return err
	case "follow":
		_, err := os.Readlink(args[0])
		return err
	case "truncate":
		return os.Truncate(args[0], 0)
	case "mode":
		return os.Chmod(args[0], 0o666)
	case "watch":
		fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
		if err != nil {
			return err
		}
		defer func() { _ = unix.Close(fd) }()
		_, err = unix.InotifyAddWatch(fd, args[0], unix.IN_ALL_EVENTS)
		return err
	case "owner":
		return os.Chown(args[0], os.Getuid(), os.Getgid())
	case "times":
		return os.Chtimes(args[0], time.Unix(1, 0), time.Unix(1, 0))
	case "attribute":
		return unix.Setxattr(args[0], "user.attacked", []byte("x"), 0)
	case "attribute at a descriptor": // Landlock allows such a descriptor only for readable files
		fd, err := unix.Open(args[0], unix.O_RDONLY, 0)
		if err != nil {
			if fd, err = unix.Open(".", unix.O_RDONLY, 0); err != nil {
				return err
			}
		}
		return unix.Fsetxattr(fd, "user.attacked", []byte("x"), 0)
	case "flags": // sets the no-dump flag of a readable file
		fd, err := unix.Open(args[0], unix.O_RDONLY, 0)
		if err != nil {
			return err
		}
		return unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, 0x40)
	case "tag": // lowers the limit by which the supervisor recognises the process
		return unix.Setrlimit(unix.RLIMIT_RTTIME, &unix.Rlimit{Cur: 1 << 40, Max: 1 << 40})
	case "old tag": // the same with the older system call
		return rawSyscall(unix.SYS_SETRLIMIT, unix.RLIMIT_RTTIME, uintptr(unsafe.Pointer(&unix.Rlimit{Cur: 1 << 40, Max: 1 << 40})))
	case "signal":
		return syscall.Kill(int(numberArg(0)), syscall.Signal(numberArg(1)))
	case "pidfd": // sends a signal through a pidfd
		fd, err := unix.PidfdOpen(int(numberArg(0)), 0)
		if err != nil {
			return err
		}
		return unix.PidfdSendSignal(fd, syscall.SIGTERM, nil, 0)
	case "trace":
		return rawSyscall(unix.SYS_PTRACE, unix.PTRACE_ATTACH, numberArg(0))
	case "memory":
		f, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", numberArg(0)), os.O_RDWR, 0)
		_ = f
		return err
	case "limit": // with a low limit of its CPU time, the kernel would end the process
		return unix.Prlimit(int(numberArg(0)), unix.RLIMIT_CPU, &unix.Rlimit{Cur: 1000, Max: 1000}, nil)
	case "renice":
		return syscall.Setpriority(syscall.PRIO_PROCESS, int(numberArg(0)), 19)
	case "affinity":
		var set unix.CPUSet
		set.Set(0)
		return unix.SchedSetaffinity(int(numberArg(0)), &set)
	case "dial":
		c, err := net.DialTimeout(args[0], args[1], waittest.Limit)
		if err == nil {
			_, err = c.Write([]byte("attacked"))
		}
		return err
	case "proxy": // connects to args[0] through the proxy, and says hello
		c, err := net.DialTimeout("tcp", sandbox.ProxyAddress, waittest.Limit)
		if err != nil {
			return err
		}
		response := make([]byte, 1000)
		if _, err = fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", args[0], args[0]); err == nil {
			_, err = c.Read(response)
		}
		if err != nil || !strings.HasPrefix(string(response), "HTTP/1.1 200") {
			return fmt.Errorf("the proxy answered %q: %w", response, err)
		}
		_, err = c.Write([]byte("hello\n"))
		if err == nil {
			_, err = io.ReadFull(c, response[:6])
		}
		fmt.Print(string(response[:6]))
		return err
	case "multipath": // creates a socket of Multipath TCP
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP)
		_ = fd
		return err
	case "family":
		_, err := unix.Socket(int(numberArg(0)), unix.SOCK_DGRAM, 0)
		return err
	case "pair": // uses a pair of sockets of the type, which must not reach the socket with the path args[1]
		pair, err := unix.Socketpair(unix.AF_UNIX, int(numberArg(0)), 0)
		if err != nil {
			return err
		}
		if unix.Sendto(pair[0], []byte("x"), 0, &unix.SockaddrUnix{Name: args[1]}) != nil { // some types ignore the name
			if _, err := unix.Write(pair[0], []byte("x")); err != nil {
				return err
			}
		}
		_, _, err = unix.Recvfrom(pair[1], make([]byte, 1), unix.MSG_DONTWAIT)
		return err
	case "smuggle": // sends data and a descriptor to the socket with the path, from a pair of datagram sockets
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		return unix.Sendmsg(pair[0], []byte("attacked"), unix.UnixRights(pair[1]), &unix.SockaddrUnix{Name: args[0]}, 0)
	case "ring":
		var params [120]byte
		return rawSyscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params[0])))
	case "keyring":
		return rawSyscall(unix.SYS_KEYCTL, unix.KEYCTL_GET_KEYRING_ID, ^uintptr(3)+1, 0) // KEY_SPEC_USER_KEYRING
	case "setuid":
		if err := os.WriteFile("program", nil, 0o700); err != nil {
			return fmt.Errorf("prepare: %w", err)
		}
		return os.Chmod("program", 0o700|os.ModeSetuid)
	case "namespace":
		cmd := exec.Command("/bin/true")
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		}
		return cmd.Run()
	case "chroot":
		return syscall.Chroot("/")
	case "fork": // starts this many processes
		for range numberArg(0) {
			cmd := exec.Command("/bin/sleep", "3600")
			if err := cmd.Start(); err != nil {
				return err
			}
		}
		return nil
	case "allocate": // allocates this many MiB of private memory
		b, err := unix.Mmap(-1, 0, int(numberArg(0))<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
		_ = b
		return err
	case "grow": // writes a file of this many MiB
		return os.WriteFile("large", make([]byte, numberArg(0)<<20), 0o600)
	case "open": // opens this many descriptors
		for range numberArg(0) {
			if _, err := unix.Open("/dev/null", unix.O_RDONLY, 0); err != nil {
				return err
			}
		}
		return nil
	case "spin": // uses this many seconds of computing time
		for {
			var used unix.Rusage
			if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil || used.Utime.Sec >= int64(numberArg(0)) {
				return err
			}
		}
	case "descriptors": // finds an inherited descriptor besides stdin, stdout and stderr
		found, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			return err
		}
		for _, f := range found {
			if to, err := os.Readlink("/proc/self/fd/" + f.Name()); err == nil && len(f.Name()) == 1 && f.Name() > "2" && !strings.HasPrefix(to, "anon_inode") && !strings.HasPrefix(to, "/proc") && !strings.HasPrefix(to, "/sys") {
				fmt.Println(f.Name(), to)
				return nil
			}
		}
		return fmt.Errorf("no inherited descriptors")
	}
	panic("unknown attack " + name)
}
