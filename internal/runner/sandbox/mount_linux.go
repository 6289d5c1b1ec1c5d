//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// restrictMounts moves the thread to a mount namespace in which only the policy's writable paths can be changed, and the directories
// in Hide are hidden. Landlock alone does not restrict changes of modes, owners and times. restrictMounts does nothing if the root
// directory is writable, or if the user may not create mount namespaces, like most users.
func restrictMounts(p Policy) error {
	var writable []string // if one has become a symbolic link, Landlock still protects its target
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
	for _, dir := range p.Hide {
		if err := hideDir(dir, slices.Concat(writable, p.Read)); err != nil {
			return fmt.Errorf("cannot hide %s: %w", dir, err)
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
		mountPoint := mountEscapes.Replace(fields[4])
		if slices.ContainsFunc(writable, func(path string) bool { return mountPoint == path || strings.HasPrefix(mountPoint, path+"/") }) {
			continue
		}
		err := unix.MountSetattr(unix.AT_FDCWD, mountPoint, unix.AT_SYMLINK_NOFOLLOW, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
		if err != nil && !isUnreachable(err) {
			return fmt.Errorf("%s: %w", mountPoint, err)
		}
	}
	return unix.Chdir(dir) // the working directory still refers to the old mounts
}

// isUnreachable reports whether err means that the program cannot reach the mount either: another mount hides it, it is in a
// directory that the user may not enter, or its file system does not answer.
func isUnreachable(err error) bool {
	return slices.ContainsFunc([]error{unix.EINVAL, unix.ENOENT, unix.EACCES, unix.ESTALE, unix.ENOTCONN}, func(e error) bool { return errors.Is(err, e) })
}

// hideDir hides the directory behind an empty one, in which only the paths in visible exist. It does nothing if the
// directory does not exist, or is visible itself.
func hideDir(dir string, visible []string) error {
	type visiblePath struct {
		path string
		tree int  // descriptor of a copy of the mount of the path
		file bool // the path is not a directory
	}
	var all []visiblePath
	defer func() {
		for _, s := range all {
			_ = unix.Close(s.tree)
		}
	}()
	if info, err := os.Lstat(dir); err != nil || !info.IsDir() {
		return nil //nolint:nilerr // there is nothing to hide
	}
	var paths []string
	for _, path := range visible {
		paths = append(paths, filepath.Clean(path))
		if target, err := filepath.EvalSymlinks(path); err == nil {
			paths = append(paths, target) // a link in dir is not visible, so its target is mounted at both paths
		}
	}
	slices.Sort(paths) // a directory precedes its entries
	for _, path := range slices.Compact(paths) {
		if path == dir || strings.HasPrefix(dir, strings.TrimSuffix(path, "/")+"/") {
			return nil
		}
		if !strings.HasPrefix(path, dir+"/") || slices.ContainsFunc(all, func(s visiblePath) bool { return !s.file && strings.HasPrefix(path, s.path+"/") }) {
			continue
		}
		info, err := os.Stat(path)
		if err != nil {
			continue // missing paths are ignored
		}
		tree, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
		if err != nil {
			return err
		}
		all = append(all, visiblePath{path, tree, !info.IsDir()})
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755,size=1m"); err != nil {
		return err
	}
	for _, s := range all {
		if err := createMountPoint(s.path, s.file); err != nil {
			return err
		}
		if err := unix.MoveMount(s.tree, "", unix.AT_FDCWD, s.path, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			return err
		}
	}
	return nil
}

// createMountPoint creates an empty file or directory on which the path can be mounted.
func createMountPoint(path string, file bool) error {
	if !file {
		return os.MkdirAll(path, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, nil, 0o644)
}

// mountEscapes decodes a path of mountinfo.
var mountEscapes = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
