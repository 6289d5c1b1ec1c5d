package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// systemDirs are the directories with the system's programs and libraries, and with the files that these read.
var systemDirs = []string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store", "/gnu/store", "/snap", "/proc", "/sys",
	"/var/lib/ca-certificates",
}

// SystemPaths returns the paths that every program may read: the system's programs and public files. In /etc, it leaves out files
// that only root or a group may read, because the user of the agents may be root.
var SystemPaths = sync.OnceValue(func() []string {
	paths := append([]string{}, systemDirs...)
	public, whole := publicPaths("/etc")
	if whole {
		public = []string{"/etc"}
	}
	paths = append(paths, public...)
	for _, link := range []string{"/etc/resolv.conf", "/etc/localtime", "/etc/hosts"} {
		if target, err := filepath.EvalSymlinks(link); err == nil {
			paths = append(paths, target)
		}
	}
	return slices.Clip(paths) // so that an append of one caller does not change the paths of another caller
})

const othersRead = 0o004

// publicPaths returns the paths in the directory that all users may read. whole reports whether all users may read all
// paths in the directory.
func publicPaths(dir string) (public []string, whole bool) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, false
	}
	whole = true
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		info, err := e.Info()
		switch {
		case err != nil:
			whole = false
		case info.Mode()&os.ModeSymlink != 0: // the target of the link has permissions of its own
		case info.Mode().Perm()&othersRead == 0:
			whole = false
		case info.IsDir():
			inside, all := publicPaths(path)
			if all {
				inside = []string{path}
			}
			public, whole = append(public, inside...), whole && all
		default:
			public = append(public, path)
		}
	}
	return public, whole
}
