//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// readOnly moves the thread to a mount namespace in which only the policy's writable paths can be changed. Landlock
// alone does not restrict changes of modes, owners and times. Most users may not create mount namespaces. For them,
// readOnly does nothing.
func readOnly(p Policy) error {
	var writable []string // if one has become a symbolic link, Landlock still protects what it leads to
	for _, path := range p.Write {
		writable = append(writable, filepath.Clean(path))
	}
	if slices.Contains(writable, "/") {
		return nil
	}
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	err = unix.Unshare(unix.CLONE_NEWNS)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSPC) {
		return nil
	}
	if err == nil {
		err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
	}
	if err != nil {
		return err
	}
	for _, path := range writable { // each path gets a mount of its own, which stays writable
		if err := unix.Mount(path, path, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return err
		}
	}
	table, err := os.ReadFile("/proc/thread-self/mountinfo")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(table)) {
		fields := strings.Fields(line) // 36 35 98:0 /root /mount/point rw,noatime ...
		if len(fields) < 5 {
			continue
		}
		at := unescape.Replace(fields[4])
		if slices.ContainsFunc(writable, func(path string) bool { return at == path || strings.HasPrefix(at, path+"/") }) {
			continue
		}
		err := unix.MountSetattr(unix.AT_FDCWD, at, unix.AT_SYMLINK_NOFOLLOW, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
		if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) { // another mount hides this mount
			return err
		}
	}
	return unix.Chdir(dir) // the working directory still refers to the old mounts
}

// unescape decodes a path of mountinfo.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
