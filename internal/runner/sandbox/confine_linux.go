//go:build amd64 || arm64

package sandbox

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// minABI is the minimum version of Landlock. It is the first version that restricts signals and abstract sockets.
const minABI = 6

// Available returns nil if programs can be confined. Otherwise it returns an error that wraps ErrUnavailable and says
// what is missing.
var Available = sync.OnceValue(func() error {
	abi, err := ll.LandlockGetABIVersion()
	if err != nil {
		return fmt.Errorf("%w: the kernel has no Landlock: use Linux 6.12 or later, with landlock in the boot parameter lsm=", ErrUnavailable)
	}
	if abi < minABI {
		return fmt.Errorf("%w: the kernel has Landlock version %d, but %d is required: use Linux 6.12 or later", ErrUnavailable, abi, minABI)
	}
	return nil
})

// confine permanently confines the calling thread, which must be locked.
func confine(p Policy) error {
	rules, err := rulesOf(p) // this reads files, so it must precede the restrictions
	if err != nil {
		return err
	}
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"mounts", func() error {
			if !p.Mounts {
				return nil
			}
			return restrictMounts(p)
		}},
		{"resource limits", func() error { return setLimits(p) }},
		{"capabilities", func() error { return dropCapabilities(p.Override) }},
		{"no_new_privs", func() error { return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }},
		{"landlock", func() error {
			latest := landlock.V11 // each kernel applies the restrictions that it supports
			return landlock.MustConfig(latest.HandledAccessFS, latest.Scoped).BestEffort().Restrict(rules...)
		}},
		{"seccomp", func() error { return filterSystemCalls(p) }},
	} {
		if err := step.do(); err != nil {
			return fmt.Errorf("cannot confine the program: %s: %w", step.name, err)
		}
	}
	return nil
}

// devices are the devices that every program may use.
var devices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"}

// rulesOf returns the Landlock rules for the policy. It fails if a path in Write is missing or contains symbolic links.
func rulesOf(p Policy) ([]landlock.Rule, error) {
	var writeDirs, writeFiles, readDirs, readFiles []string
	for _, path := range p.Write {
		fd, err := openNoSymlinks(path, 0) // the exec closes it
		if err != nil {
			return nil, fmt.Errorf("cannot confine the program: %w", err)
		}
		if info, err := os.Stat(fdPath(fd)); err != nil {
			return nil, fmt.Errorf("cannot confine the program: %w", err)
		} else if info.IsDir() {
			writeDirs = append(writeDirs, fdPath(fd))
		} else {
			writeFiles = append(writeFiles, fdPath(fd))
		}
	}
	for _, path := range p.Read {
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			readDirs = append(readDirs, path)
		} else if err == nil {
			readFiles = append(readFiles, path)
		}
	}
	return []landlock.Rule{
		landlock.RWDirs(writeDirs...).WithRefer(), landlock.RWFiles(writeFiles...),
		landlock.RODirs(readDirs...), landlock.ROFiles(readFiles...),
		landlock.RWFiles(devices...).WithIoctlDev().IgnoreIfMissing(),
	}, nil
}

// OpenRoot is like os.OpenRoot, but returns an error if the path contains symbolic links.
func OpenRoot(dir string) (*os.Root, error) {
	fd, err := openNoSymlinks(dir, unix.O_DIRECTORY)
	if errors.Is(err, unix.ENOSYS) { // this process is confined, see filterRules
		return openChecked(dir)
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(fd) }()
	return os.OpenRoot(fdPath(fd))
}

func fdPath(fd int) string { return fmt.Sprintf("/proc/thread-self/fd/%d", fd) }

// openNoSymlinks opens the path with O_PATH. It returns an error that wraps errLink if the path contains symbolic links.
func openNoSymlinks(path string, flags uint64) (fd int, err error) {
	for {
		fd, err = unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC | flags, Resolve: unix.RESOLVE_NO_SYMLINKS})
		if !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN) {
			break
		}
	}
	if errors.Is(err, unix.ELOOP) {
		return 0, fmt.Errorf("%s: %w", path, errLink)
	}
	if err != nil {
		return 0, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return fd, nil
}

// endWithThread makes the kernel kill the command's process when the thread that started it ends.
func endWithThread(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// setLimits sets the resource limits of the process. No limit is raised.
func setLimits(p Policy) error {
	limits := map[int]uint64{unix.RLIMIT_NPROC: cmp.Or(p.Processes, DefaultProcesses), unix.RLIMIT_CORE: 0}
	for resource, limit := range map[int]uint64{
		unix.RLIMIT_DATA: p.Limits.Memory, unix.RLIMIT_CPU: uint64((p.Limits.CPU + time.Second - 1) / time.Second),
		unix.RLIMIT_FSIZE: p.Limits.FileSize, unix.RLIMIT_NOFILE: p.Limits.Descriptors,
	} {
		if limit > 0 {
			limits[resource] = limit
		}
	}
	for resource, limit := range limits {
		var current unix.Rlimit
		if err := unix.Getrlimit(resource, &current); err != nil {
			return err
		}
		limit = min(limit, current.Max)
		if err := unix.Setrlimit(resource, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
			return err
		}
	}
	return nil
}

// dropCapabilities drops all capabilities of the thread, and the ways to regain them. If override is set, root keeps
// CAP_DAC_OVERRIDE. Only root can lower the bounding set. For other users the bounding set does not matter, because
// no_new_privs is set afterwards.
func dropCapabilities(override bool) error {
	var keep [2]unix.CapUserData
	if override && os.Geteuid() == 0 {
		keep[0] = unix.CapUserData{Effective: 1 << unix.CAP_DAC_OVERRIDE, Permitted: 1 << unix.CAP_DAC_OVERRIDE}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return err
	}
	for c := range uintptr(64) {
		if c == unix.CAP_DAC_OVERRIDE && keep[0].Permitted != 0 {
			continue
		}
		switch err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err {
		case nil, unix.EINVAL: // the kernel has fewer capabilities
		case unix.EPERM:
			if os.Geteuid() == 0 {
				return err
			}
		default:
			return err
		}
	}
	return unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &keep[0])
}
