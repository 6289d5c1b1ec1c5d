package sqlite

import (
	"os"

	"golang.org/x/sys/unix"
)

// allocate allocates size bytes of disk space for the file without changing the file's size. It does nothing in a
// tmpfs, where allocating means clearing memory.
func allocate(f *os.File, size int64) {
	fd := int(f.Fd())
	var stat unix.Statfs_t
	if err := unix.Fstatfs(fd, &stat); err == nil && stat.Type != unix.TMPFS_MAGIC {
		_ = unix.Fallocate(fd, unix.FALLOC_FL_KEEP_SIZE, 0, size)
	}
}

// diskSpace returns the free space of the disk that users without privileges can use, and the size of the disk, in bytes.
func diskSpace(dir string) (free, total uint64, err error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, 0, err
	}
	return s.Bavail * uint64(s.Bsize), s.Blocks * uint64(s.Bsize), nil
}
