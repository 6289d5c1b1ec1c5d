package process

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// AddNamespace changes the attributes of a child so that it becomes the init process of a new pid namespace: when the child
// ends, the kernel kills all its descendants. The child also gets its own mounts, System V shared memory and message queues.
// Ordinary users can create such a namespace only in a user namespace. The child must call EnterNamespace first.
func AddNamespace(attr *syscall.SysProcAttr) {
	attr.Cloneflags |= syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWIPC
	if uid, gid := os.Geteuid(), os.Getegid(); uid != 0 {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
		attr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN} // to mount /proc, and for the sandbox helper, which drops it
	}
}

// IsNamespaceError reports whether err, an error of starting a child, means that this system does not allow the namespaces of
// AddNamespace.
func IsNamespaceError(err error) bool {
	for _, e := range []error{unix.EPERM, unix.EACCES, unix.EINVAL, unix.ENOSPC, unix.EUSERS, unix.ENOSYS} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// EnterNamespace prepares a process that was started with the attributes of AddNamespace. It mounts a /proc that shows only the
// processes of the namespace, and returns the ID of the process outside the namespace. separate is false if the process has no
// namespace of its own.
func EnterNamespace() (outerID ID, separate bool, err error) {
	self, err := os.Readlink("/proc/self") // still the /proc of the parent
	if err != nil {
		return ID{}, false, err
	}
	pid, err := strconv.Atoi(self)
	if err != nil || pid == os.Getpid() {
		return ID{}, false, err
	}
	if outerID, err = Of(pid); err != nil {
		return ID{}, true, err
	}
	// Mounts and unmounts outside still reach this namespace.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return ID{}, true, fmt.Errorf("cannot separate mounts: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return ID{}, true, fmt.Errorf("cannot mount /proc: %w", err)
	}
	return outerID, true, nil
}
