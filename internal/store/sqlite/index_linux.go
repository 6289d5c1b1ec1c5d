package sqlite

import "golang.org/x/sys/unix"

// mapped maps the beginning of the file into memory, for reading.
func mapped(path string, size int) (memory []byte, err error) {
	err = apart(path, unix.O_RDONLY, func(fd int) (err error) {
		memory, err = unix.Mmap(fd, 0, size, unix.PROT_READ, unix.MAP_SHARED)
		return err
	})
	return memory, err
}

func unmap(memory []byte) error { return unix.Munmap(memory) }
